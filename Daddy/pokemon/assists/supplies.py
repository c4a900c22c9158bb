"""Pure: room in the bag, and money. What stands in the memory afterwards is the whole effect."""

from __future__ import annotations

from typing import Final

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.assists.moment import Act, Moment
from Daddy.pokemon.bag import is_kept

_LIST_END: Final = 0xFF
_BALLS: Final = frozenset((1, 2, 3, 4))
"""Somebody has to be caught who can learn what the way needs."""
_ENOUGH: Final = 10_000
"""Below that it is filled up; nothing the story needs costs more."""
_FULL: Final = 100_000
_FULL_PURSE: Final = (0x10, 0x00, 0x00)
"""Well below the most that the purse can hold: what is won later must fit in too."""


def toss_junk(now: Moment) -> Act | None:
    """A full bag takes no key item: away with all but balls, key items and HMs."""
    bag = now.progress.bag
    if not now.calm or len(bag) < ram.BAG_SIZE:
        return None
    kept = [pair for pair in bag if pair[0] in _BALLS or is_kept(pair[0])]
    if len(kept) == len(bag):
        return None
    listed = [value for pair in kept for value in pair] + [_LIST_END]
    writes = [(ram.BAG + place, value) for place, value in enumerate(listed)]
    cursor = ((ram.BAG_COUNT, len(kept)), (ram.BAG_CURSOR, 0), (ram.LIST_SCROLL, 0))
    tossed = len(bag) - len(kept)
    return Act(f"the bag was full: {tossed} of {len(bag)} things tossed", (*writes, *cursor))


def money(now: Moment) -> Act | None:
    """Never too poor for a drink or the safari."""
    if not now.calm or now.progress.money >= _ENOUGH:
        return None
    purse = tuple((ram.MONEY + place, value) for place, value in enumerate(_FULL_PURSE))
    return Act(f"{now.progress.money} left: filled up to {_FULL:,}", purse)
