"""Pure. Names moments of the story, from which tests begin.

A test lets `player.Player` play until the moment of that name is reached.
"""

from collections.abc import Callable
from typing import Final

from scripts.cartridge.game_state import Facts
from scripts.cartridge.symbols import MAPS, STORY, SWITCHES

_NAMES: Final = [flag.name for flag in STORY + SWITCHES]
_NUMBERS: Final = {facts.name: facts.number for facts in MAPS}


def has_happened(facts: Facts, flag: str) -> bool:
    """Return True if this event has happened."""
    return _NAMES.index(flag) in facts.set_flags


def is_in(facts: Facts, name: str) -> bool:
    """Return True if the player is on the map of this name."""
    return _NUMBERS[name] == facts.place.map


def free(facts: Facts) -> bool:
    """Return True if no text, menu or fight is open."""
    return not facts.text_box and not facts.fighting


MOMENTS: Final[dict[str, Callable[[Facts], bool]]] = {
    "letter": lambda facts: has_happened(facts, "GOT_LETTER"),
    "stonewick": lambda facts: is_in(facts, "STONEWICK"),
    "errand": lambda facts: has_happened(facts, "ASKED_STONE"),
    "stone": lambda facts: has_happened(facts, "GOT_STONE"),
    "book": lambda facts: has_happened(facts, "GOT_CUT"),
    "taught": lambda facts: bool(facts.cutters),
    "thorns": lambda facts: bool(facts.cutters) and facts.shrub_tile,
    "hall": lambda facts: is_in(facts, "HALL OF SPARKS"),
    "pier": lambda facts: has_happened(facts, "BEAT_LEADER3") and is_in(facts, "PORT LANTERN"),
    "isle": lambda facts: is_in(facts, "GULL ISLE"),
    "lever": lambda facts: has_happened(facts, "SLUICE_OPEN"),
    "keeper": lambda facts: has_happened(facts, "GOT_KEY") and is_in(facts, "KEEPER'S HOUSE"),
    "tower": lambda facts: is_in(facts, "LIGHTHOUSE"),
    "lamp": lambda facts: has_happened(facts, "GOT_LAMP") and is_in(facts, "GULL ISLE"),
    "blessed": lambda facts: has_happened(facts, "BLESSED"),
    "climb": lambda facts: is_in(facts, "LOWER CLIMB"),
}
"""Tests of the moments, in the order of the story: a letter to carry, the first hall's town, the
woodcutter's task, half of it, his book, Cut taught, thorns ahead, the third hall, the pier after
it, the isle, its lever, its keeper, the tower, its lamp, the elder's blessing, the caves.
"""


def holds(moment: str, facts: Facts) -> bool:
    """Return True if the moment is reached and the player is free to walk."""
    return free(facts) and MOMENTS[moment](facts)
