"""Pure. Lists facts of the free cartridge: addresses in memory, story, maps.

The rest of its memory is laid out as in the real game. Tests compare each line with the ROM.
"""

from typing import Final, NamedTuple

SEED_ADDRESS: Final = 0xC0F0
"""One byte of work RAM that is part of every random number; 0 unless it is written.

The same seed and the same buttons give the same game. Write it once the game's clock runs (bit 0 of
0xD732), because power-on clears the memory.
"""
MODE_ADDRESS: Final = 0xC000
"""The game's mode: 0 world, 1 text box, 2 fight, 3 status page, 4 title, 5 ending, 6 menu."""
MENU_ADDRESS: Final = 0xC056
"""The open menu: 0 yes and no, 1 start, 2 bag, 3 party, 4 moves, 5 machine, 6 box."""
SECRET_ADDRESS: Final = 0xC05A
"""Two bytes: the true stairs on each floor of the lighthouse, 1 to 3; 0 before the hint."""


class StoryFlag(NamedTuple):
    """Holds one event; its flag is the real game's flag of a similar event, if any, and stays set.

    `required` events lead to the game's end; the others are gifts.
    """

    name: str
    address: int
    bit: int
    required: bool = True


class Ferry(NamedTuple):
    """Holds a boat: its sailor (map, row, column), the place it leads to, and the event before."""

    sailor: tuple[int, int, int]
    to: tuple[int, int, int]
    after: str


class MapFacts(NamedTuple):
    """Holds one map: its number in memory, our name, its size in cells."""

    number: int
    name: str
    rows: int
    columns: int


STORY: Final = tuple(
    StoryFlag(*fields)
    for fields in (
        ("GREETED_DAD", 0xD747, 0),
        ("MET_ELDER", 0xD74B, 1),
        ("GOT_STARTER", 0xD74B, 2),
        ("BEAT_RIVAL", 0xD74B, 3),
        ("GOT_ALMANAC", 0xD74B, 5),
        ("GOT_CHARM", 0xD74B, 4),
        ("GOT_MAP", 0xD74A, 0, False),
        ("BEAT_LENA", 0xD7BF, 1),
        ("GOT_LETTER", 0xD74E, 1),
        ("GOT_FRIEND", 0xD7BF, 5),
        ("BEAT_OTIS", 0xD7BF, 2),
        ("SLEPT_STONE", 0xD755, 0),
        ("BEAT_PUPIL1", 0xD755, 2),
        ("BEAT_LEADER1", 0xD755, 7),
        ("GOT_TONIC", 0xD755, 6, False),
        ("LETTER_BROUGHT", 0xD74E, 0),
        ("BEAT_MARA", 0xD7C3, 2),
        ("BEAT_TOBY", 0xD7C3, 3),
        ("BEAT_DIGGER", 0xD7F6, 1),
        ("GOT_SHELL", 0xD7F6, 6, False),
        ("BEAT_RIVAL2", 0xD75A, 0),
        ("SLEPT_LAKE", 0xD75E, 0),
        ("BEAT_PUPIL2", 0xD75E, 2),
        ("BEAT_LEADER2", 0xD75E, 7),
        ("MET_HERMIT", 0xD7F1, 0),
        ("GOT_PASS", 0xD7F2, 4),
        ("BEAT_UTE", 0xD7C9, 3),
        ("BEAT_IVY", 0xD7C9, 1),
        ("ASKED_STONE", 0xD771, 1),
        ("GOT_STONE", 0xD75F, 0),
        ("STONE_BROUGHT", 0xD78E, 1),
        ("GOT_CUT", 0xD803, 0),
        ("GATE_OPEN", 0xD773, 0),
        ("BEAT_PUPIL3", 0xD773, 2),
        ("BEAT_LEADER3", 0xD773, 7),
        ("BEAT_SAL", 0xD7C9, 2),
        ("SLEPT_ISLE", 0xD76C, 0),
        ("GOT_PUDDLO", 0xD7BF, 6),
        ("BEAT_ROE", 0xD7F6, 3),
        ("BEAT_MINER", 0xD7F6, 2),
        ("GOT_KEY", 0xD81B, 6),
        ("HEARD_WAY", 0xD76A, 1),
        ("DOOR_OPEN", 0xD81B, 5),
        ("GOT_LAMP", 0xD769, 1),
        ("LAMP_SHOWN", 0xD76C, 2),
        ("BLESSED", 0xD74B, 6),
        ("SLEPT_MILL", 0xD7ED, 1),
        ("BEAT_HALE", 0xD7EE, 1),
        ("PASSED_WATCH1", 0xD7ED, 0),
        ("PASSED_WATCH2", 0xD7ED, 6),
        ("PASSED_WATCH3", 0xD7ED, 3),
        ("BEAT_NILS", 0xD869, 1),
        ("BEAT_GRETA", 0xD869, 2),
        ("BEAT_RIVAL3", 0xD7EB, 6),
        ("BEAT_OLA", 0xD7EE, 2),
        ("BEAT_JON", 0xD7EE, 3),
        ("BEAT_WARDEN", 0xD866, 6),
        ("BEAT_TILDA", 0xD813, 1),
        ("BEAT_SAGE", 0xD863, 1),
        ("BEAT_CHAMPION", 0xD867, 1),
    )
)
"""Every event flag of the cartridge, in the order in which a direct game sets them."""

SWITCHES: Final = (StoryFlag("SLUICE_OPEN", 0xD796, 0),)
"""Flags that are set and cleared again; their numbers follow the story's."""

FERRIES: Final = (
    Ferry((5, 11, 10), (8, 13, 8), "BEAT_LEADER3"),
    Ferry((8, 15, 8), (0, 11, 7), "BEAT_LEADER3"),
)
"""Boats, which the ROM's maps do not contain."""

MAPS: Final = tuple(
    MapFacts(*fields)
    for fields in (
        (37, "HOME", 6, 6),
        (0, "HEARTH", 14, 16),
        (40, "ELDER'S HOUSE", 7, 6),
        (12, "NORTH ROAD", 11, 12),
        (1, "MILLBROOK", 12, 16),
        (41, "MILLBROOK REST HOUSE", 6, 8),
        (44, "COTTAGE", 6, 6),
        (13, "STONE ROAD", 10, 12),
        (2, "STONEWICK", 13, 16),
        (58, "STONEWICK REST HOUSE", 6, 8),
        (54, "HALL OF STONE", 8, 7),
        (14, "EAST ROAD", 12, 16),
        (59, "CAVE", 16, 16),
        (3, "LAKEMERE", 14, 16),
        (64, "LAKEMERE REST HOUSE", 6, 8),
        (88, "HERMIT'S HOUSE", 6, 6),
        (65, "HALL OF WATER", 9, 8),
        (16, "SEA ROAD", 12, 12),
        (5, "PORT LANTERN", 14, 16),
        (89, "PORT REST HOUSE", 6, 8),
        (92, "HALL OF SPARKS", 9, 8),
        (93, "WOODCUTTER'S HOUSE", 6, 6),
        (94, "BOAT", 8, 12),
        (8, "GULL ISLE", 16, 16),
        (171, "ISLE REST HOUSE", 6, 8),
        (167, "KEEPER'S HOUSE", 6, 6),
        (165, "GROTTO", 14, 16),
        (142, "LIGHTHOUSE", 7, 9),
        (143, "LIGHTHOUSE STAIRS", 7, 9),
        (144, "LIGHTHOUSE LAMP", 7, 9),
        (33, "SUMMIT ROAD", 10, 12),
        (108, "LOWER CLIMB", 14, 20),
        (194, "UPPER CLIMB", 14, 20),
        (198, "LAST CLIMB", 14, 20),
        (120, "SUMMIT", 7, 6),
        (118, "HALL OF BELLS", 6, 6),
    )
)
"""Every map of the cartridge; numbers are the real game's, and no map is larger than there."""
