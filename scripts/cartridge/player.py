"""Pure. Chooses the next button of a scripted player that wins the cartridge, from facts in memory.

The player has no state of its own: its goal follows from the flags that are set, its path from the
ROM's maps, and hints are read from the game's memory, which no agent can do. Tests, benches and
demonstrations play the game with it.
"""

from functools import lru_cache

from scripts.cartridge.distances import (
    Place,
    Roads,
    World,
    all_roads,
    bare_roads,
    distances,
    stands,
)
from scripts.cartridge.game_state import Facts, read_facts
from scripts.cartridge.maps import Atlas, read_atlas
from scripts.cartridge.menus import at_menu, can_teach, shrub_ahead
from scripts.cartridge.symbols import STORY

__all__ = ["BEDS", "BUTTONS", "GREAT_BELL", "QUEST", "Facts", "Player", "read_facts"]

BUTTONS = ("down", "left", "right", "up", "a", "b", "start")
TIRED = 0.4
"""Fraction of the party's hit points below which the player rests first."""

QUEST = {
    "GREETED_DAD": Place(37, 3, 5),
    "MET_ELDER": Place(40, 3, 1),
    "GOT_STARTER": Place(40, 3, 3),
    "BEAT_RIVAL": Place(40, 5, 4),
    "GOT_ALMANAC": Place(40, 3, 1),
    "GOT_CHARM": Place(40, 3, 1),
    "GOT_MAP": Place(0, 3, 8),
    "BEAT_LENA": Place(12, 4, 8),
    "GOT_LETTER": Place(1, 8, 7),
    "GOT_FRIEND": Place(44, 2, 3),
    "BEAT_OTIS": Place(13, 1, 10),
    "SLEPT_STONE": Place(58, 1, 4),
    "BEAT_PUPIL1": Place(54, 4, 6),
    "BEAT_LEADER1": Place(54, 1, 3),
    "GOT_TONIC": Place(54, 1, 3),
    "LETTER_BROUGHT": Place(2, 5, 11),
    "BEAT_MARA": Place(14, 8, 12),
    "BEAT_TOBY": Place(14, 3, 12),
    "BEAT_DIGGER": Place(59, 7, 11),
    "GOT_SHELL": Place(59, 13, 13),
    "BEAT_RIVAL2": Place(3, 4, 5),
    "SLEPT_LAKE": Place(64, 1, 4),
    "BEAT_PUPIL2": Place(65, 3, 6),
    "BEAT_LEADER2": Place(65, 1, 3),
    "MET_HERMIT": Place(88, 2, 3),
    "GOT_PASS": Place(88, 2, 3),
    "BEAT_UTE": Place(16, 4, 6),
    "BEAT_IVY": Place(16, 7, 10),
    "ASKED_STONE": Place(93, 2, 3),
    "GOT_STONE": Place(88, 2, 3),
    "STONE_BROUGHT": Place(93, 2, 3),
    "GOT_CUT": Place(93, 2, 3),
    "GATE_OPEN": Place(92, 5, 5),
    "BEAT_PUPIL3": Place(92, 6, 7),
    "BEAT_LEADER3": Place(92, 1, 4),
    "BEAT_SAL": Place(8, 13, 11),
    "SLEPT_ISLE": Place(171, 1, 4),
    "GOT_PUDDLO": Place(8, 8, 2),
    "BEAT_ROE": Place(165, 3, 5),
    "BEAT_MINER": Place(165, 5, 11),
    "GOT_KEY": Place(165, 5, 13),
    "HEARD_WAY": Place(167, 2, 3),
    "DOOR_OPEN": Place(8, 4, 12),
    "GOT_LAMP": Place(144, 2, 4),
    "LAMP_SHOWN": Place(167, 2, 3),
    "BLESSED": Place(40, 3, 1),
    "SLEPT_MILL": Place(41, 1, 4),
    "BEAT_HALE": Place(33, 5, 10),
    "PASSED_WATCH1": Place(33, 5, 5),
    "PASSED_WATCH2": Place(33, 4, 5),
    "PASSED_WATCH3": Place(33, 3, 5),
    "BEAT_NILS": Place(108, 8, 5),
    "BEAT_GRETA": Place(108, 4, 2),
    "BEAT_RIVAL3": Place(108, 1, 16),
    "BEAT_OLA": Place(194, 8, 1),
    "BEAT_JON": Place(194, 5, 11),
    "BEAT_WARDEN": Place(194, 3, 17),
    "BEAT_TILDA": Place(198, 10, 1),
    "BEAT_SAGE": Place(198, 4, 8),
    "BEAT_CHAMPION": Place(120, 1, 2),
}
"""The person or thing to speak to for each flag of the story."""
GREAT_BELL = Place(118, 2, 3)
BEDS = (Place(37, 3, 5), *(Place(number, 1, 4) for number in (41, 58, 64, 89, 171)))
KEY, BORROWER = 0x4A, Place(8, 5, 6)
"""The item for the lighthouse's door, and the person who has it if it is not in the bag."""
LEVER = Place(165, 2, 3)
"""The lever to pull when no road leads to the goal."""


class Player:
    """Plays one built cartridge."""

    def __init__(self, rom: bytes) -> None:
        self.atlas: Atlas = read_atlas(rom)
        self._bare = bare_roads(self.atlas)
        self._roads = lru_cache(maxsize=64)(self._find_roads)
        self._far = lru_cache(maxsize=256)(self._find_distances)

    def next_button(self, facts: Facts) -> str:
        """Return one of BUTTONS, depending on `facts` alone; of equal ways, the first button."""
        if not facts.started:
            return "start"
        if facts.menu is not None:
            return at_menu(facts, self.atlas)
        if facts.text_box or facts.fighting:
            return "a"
        if can_teach(facts):
            return "start"
        if facts.health < TIRED:
            return self._towards(facts, self._nearest_bed(facts))
        return self._towards(facts, self.goal(facts))

    def goal(self, facts: Facts) -> Place:
        """Return the thing to speak to for the first flag of the story that is not set."""
        for index, flag in enumerate(STORY):
            if index not in facts.set_flags:
                is_lent = flag.name == "DOOR_OPEN" and KEY not in facts.bag
                return BORROWER if is_lent else QUEST[flag.name]
        return GREAT_BELL

    def _nearest_bed(self, facts: Facts) -> Place:
        return min(BEDS, key=lambda bed: self._far(bed, facts.world).get(facts.place, 1 << 16))

    def _towards(self, facts: Facts, thing: Place) -> str:
        distance = self._far(thing, facts.world)
        if facts.place not in distance and thing != LEVER:
            return self._towards(facts, LEVER)
        reach = stands(self.atlas, thing)
        if facts.place in reach:
            return _face(facts, reach[facts.place], "a")
        leads = self._roads(facts.world).get(facts.place, {})
        steps = {button: distance[lead.to] for button, lead in leads.items() if lead.to in distance}
        if not steps:
            return "a"
        button = min(steps, key=lambda button: steps[button])
        press = leads[button].press
        stands_there = press == "a" or (press == "start" and shrub_ahead(facts, self.atlas))
        return _face(facts, button, press) if stands_there else button

    def _find_roads(self, world: World) -> Roads:
        return all_roads(self.atlas, world, self._bare)

    def _find_distances(self, thing: Place, world: World) -> dict[Place, int]:
        return distances(self._roads(world), set(stands(self.atlas, thing)))


def _face(facts: Facts, button: str, then: str) -> str:
    return then if facts.facing == button else button
