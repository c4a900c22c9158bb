"""Pure: a scripted player that wins the cartridge: facts in memory in, the next button out.

It keeps nothing in mind: what to do follows from the flags that are set, where to go from the maps
in the ROM. Tests, benchmarks and demonstrations use it as a yardstick.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from Daddy.pokemon.cartridge.atlas import Atlas, read_atlas
from Daddy.pokemon.cartridge.roads import Place, Roads, all_roads, distances, stands
from Daddy.pokemon.cartridge.symbols import STORY

BUTTONS = ("down", "left", "right", "up", "a", "b", "start")
FACING = {0: "down", 4: "up", 8: "left", 12: "right"}
TIRED = 0.4
"""Part of the party's hit points below which a rest comes first."""

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
    "BEAT_PUPIL1": Place(54, 4, 6),
    "BEAT_LEADER1": Place(54, 1, 3),
    "GOT_TONIC": Place(54, 1, 3),
    "LETTER_BROUGHT": Place(2, 5, 11),
    "BEAT_MARA": Place(14, 8, 12),
    "BEAT_TOBY": Place(14, 3, 12),
    "BEAT_DIGGER": Place(59, 7, 11),
    "GOT_SHELL": Place(59, 13, 13),
    "BEAT_RIVAL2": Place(3, 4, 5),
    "MET_HERMIT": Place(88, 2, 3),
    "GOT_PASS": Place(88, 2, 3),
    "BEAT_PUPIL2": Place(65, 3, 6),
    "BEAT_LEADER2": Place(65, 1, 3),
    "GOT_AXE": Place(65, 1, 3),
    "BEAT_IVY": Place(16, 7, 10),
    "SHRUB_CUT": Place(5, 10, 6),
    "GATE_OPEN": Place(92, 5, 5),
    "BEAT_PUPIL3": Place(92, 6, 7),
    "BEAT_LEADER3": Place(92, 1, 4),
    "PASSED_WATCH1": Place(33, 5, 5),
    "PASSED_WATCH2": Place(33, 4, 5),
    "BEAT_CHAMPION": Place(120, 1, 2),
}
"""Whom to speak to for each flag of the story."""
GREAT_BELL = Place(118, 2, 3)
BEDS = (Place(37, 3, 5), *(Place(number, 1, 4) for number in (41, 58, 64, 89)))


@dataclass(frozen=True)
class Facts:
    """What the player looks at."""

    started: bool
    place: Place
    facing: str
    text_box: bool
    fighting: bool
    set_flags: frozenset[int]
    health: float
    finished: bool


def read_facts(read: Callable[[int], int]) -> Facts:
    """Facts of the moment; `read` gives the byte at an address."""
    slots = range(min(read(0xD163), 6))
    most = sum(read(0xD18E + 44 * slot) for slot in slots)
    return Facts(
        started=bool(read(0xD732) & 1),
        place=Place(read(0xD35E), read(0xD361), read(0xD362)),
        facing=FACING.get(read(0xC109), "down"),
        text_box=bool(read(0xD125)),
        fighting=bool(read(0xD057)),
        set_flags=frozenset(
            index for index, flag in enumerate(STORY) if read(flag.address) >> flag.bit & 1
        ),
        health=sum(read(0xD16D + 44 * slot) for slot in slots) / most if most else 1.0,
        finished=bool(read(0xD5A2)),
    )


class Player:
    """The policy for one built cartridge."""

    def __init__(self, rom: bytes) -> None:
        self.atlas: Atlas = read_atlas(rom)
        self._roads = lru_cache(maxsize=64)(self._find_roads)
        self._far = lru_cache(maxsize=256)(self._find_distances)

    def next_button(self, facts: Facts) -> str:
        """One of BUTTONS. A pure function of `facts`; where roads cross, the first button wins."""
        if not facts.started:
            return "start"
        if facts.text_box or facts.fighting:
            return "a"
        if facts.health < TIRED:
            return self._towards(facts, self._nearest_bed(facts))
        return self._towards(facts, self.goal(facts))

    def goal(self, facts: Facts) -> Place:
        """The thing to speak to next: of the first flag of the story that is not set."""
        for index, flag in enumerate(STORY):
            if index not in facts.set_flags:
                return QUEST[flag.name]
        return GREAT_BELL

    def _nearest_bed(self, facts: Facts) -> Place:
        return min(BEDS, key=lambda bed: self._far(bed, facts.set_flags).get(facts.place, 1 << 16))

    def _towards(self, facts: Facts, thing: Place) -> str:
        reach = stands(self.atlas, thing)
        if facts.place in reach:
            button = reach[facts.place]
            return "a" if facts.facing == button else button
        far = self._far(thing, facts.set_flags)
        leads = self._roads(facts.set_flags).get(facts.place, {})
        known = {button: far[to] for button, to in leads.items() if to in far}
        return min(known, key=lambda button: known[button]) if known else "a"

    def _find_roads(self, set_flags: frozenset[int]) -> Roads:
        return all_roads(self.atlas, set_flags)

    def _find_distances(self, thing: Place, set_flags: frozenset[int]) -> dict[Place, int]:
        return distances(self._roads(set_flags), set(stands(self.atlas, thing)))
