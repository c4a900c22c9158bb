"""Pure. Chooses the scripted player's buttons in menus, to teach Cut and to use it."""

from scripts.cartridge.distances import STEPS
from scripts.cartridge.game_state import Facts
from scripts.cartridge.maps import REGROWS, Atlas

BOOK = 0xC4
ABLE = (0xB0, 0xA9)
"""Species that can learn Cut."""
ASK, START, BAG, PARTY, MOVES = range(5)


def can_teach(facts: Facts) -> bool:
    """Return True if a member of the party can learn Cut and none knows it yet."""
    return BOOK in facts.bag and not facts.cutters and bool(set(ABLE) & set(facts.party))


def shrub_ahead(facts: Facts, atlas: Atlas) -> bool:
    """Return True if the player faces a shrub; in a menu, if a shrub grows on that cell."""
    down, right = STEPS[facts.facing]
    ahead = facts.place.y + down, facts.place.x + right
    things = atlas.maps[facts.place.map].things
    grows = any((thing.y, thing.x) == ahead and thing.kind == REGROWS for thing in things)
    return grows and (facts.shrub_tile or facts.menu is not None)


def at_menu(facts: Facts, atlas: Atlas) -> str:
    """Return the button for the open menu: towards the wanted entry, else B to leave."""
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
