"""Pure: how the scripted player goes through the menus, to teach Cut and to use it."""

from __future__ import annotations

from scripts.cartridge.distances import STEPS
from scripts.cartridge.game_state import Facts
from scripts.cartridge.maps import REGROWS, Atlas

BOOK = 0xC4
ABLE = (0xB0, 0xA9)
"""Species that can learn Cut."""
ASK, START, BAG, PARTY, MOVES = range(5)


def can_teach(facts: Facts) -> bool:
    """Whether somebody here can learn Cut, and nobody knows it yet."""
    return BOOK in facts.bag and not facts.cutters and bool(set(ABLE) & set(facts.party))


def shrub_ahead(facts: Facts, atlas: Atlas) -> bool:
    """Whether the player faces a shrub that stands; in a menu: one that stood there."""
    down, right = STEPS[facts.facing]
    ahead = facts.place.y + down, facts.place.x + right
    things = atlas.maps[facts.place.map].things
    grows = any((one.y, one.x) == ahead and one.kind == REGROWS for one in things)
    return grows and (facts.shrub_tile or facts.menu is not None)


def at_menu(facts: Facts, atlas: Atlas) -> str:
    """The button for the open menu; back, where nothing is wanted of it."""
    entry = _wanted(facts, shrub_ahead(facts, atlas))
    if entry is None:
        return "b"
    if entry == facts.entry:
        return "a"
    return "down" if entry > facts.entry else "up"


def _wanted(facts: Facts, shrub: bool) -> int | None:
    teaches = can_teach(facts)
    if facts.menu == ASK:
        return 0
    if not teaches and not (shrub and facts.cutters):
        return None
    if facts.menu == START:
        return 1 if teaches else 0
    if facts.menu == BAG:
        return facts.bag.index(BOOK) if teaches else None
    if facts.menu == PARTY:
        pupils = [slot for slot, species in enumerate(facts.party) if species in ABLE]
        return pupils[0] if teaches else facts.cutters[0]
    return 0 if facts.menu == MOVES and not teaches else None
