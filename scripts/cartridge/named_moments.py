"""Pure: moments of a scripted game by name, to begin tests and measurements from.

Whoever lets `player.Player` play until one holds has a game in front of what its name says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scripts.cartridge.game_state import Facts
from scripts.cartridge.symbols import MAPS, STORY, SWITCHES

_NAMES: Final = [flag.name for flag in STORY + SWITCHES]
_NUMBERS: Final = {facts.name: facts.number for facts in MAPS}


def told(facts: Facts, flag: str) -> bool:
    """Whether this event has happened."""
    return _NAMES.index(flag) in facts.set_flags


def is_in(facts: Facts, name: str) -> bool:
    """Whether the player is on the map of this name."""
    return _NUMBERS[name] == facts.place.map


def free(facts: Facts) -> bool:
    """Whether no text, menu or fight is on."""
    return not facts.text_box and not facts.fighting


STOPS: Final[dict[str, Callable[[Facts], bool]]] = {
    "letter": lambda facts: told(facts, "GOT_LETTER"),
    "stonewick": lambda facts: is_in(facts, "STONEWICK"),
    "errand": lambda facts: told(facts, "ASKED_STONE"),
    "stone": lambda facts: told(facts, "GOT_STONE"),
    "book": lambda facts: told(facts, "GOT_CUT"),
    "taught": lambda facts: bool(facts.cutters),
    "thorns": lambda facts: bool(facts.cutters) and facts.shrub_tile,
    "hall": lambda facts: is_in(facts, "HALL OF SPARKS"),
    "pier": lambda facts: told(facts, "BEAT_LEADER3") and is_in(facts, "PORT LANTERN"),
    "isle": lambda facts: is_in(facts, "GULL ISLE"),
    "lever": lambda facts: told(facts, "SLUICE_OPEN"),
    "keeper": lambda facts: told(facts, "GOT_KEY") and is_in(facts, "KEEPER'S HOUSE"),
    "tower": lambda facts: is_in(facts, "LIGHTHOUSE"),
    "lamp": lambda facts: told(facts, "GOT_LAMP") and is_in(facts, "GULL ISLE"),
    "blessed": lambda facts: told(facts, "BLESSED"),
    "climb": lambda facts: is_in(facts, "LOWER CLIMB"),
}
"""In the order of the story: a letter to carry, the first bell's town before a night there, the
woodcutter's errand, half of it, his book, Cut taught, thorns ahead, the third hall, the pier after
it, the isle, its lever, its keeper, the tower, its light outside, the elder's blessing, the caves.
"""


def holds(stop: str, facts: Facts) -> bool:
    """Whether this is such a moment, and the player is free."""
    return free(facts) and STOPS[stop](facts)
