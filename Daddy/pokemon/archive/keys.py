"""Pure: under what an archive files a moment of the game: its milestones, and the place it is at.

Owns the name and the rank of such a set. The place tells moments apart, but does not count: who is
first somewhere is worth keeping, never worth calling everybody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

PLACE: Final = "at_"
"""What `story.place_key` begins with."""
Names = frozenset[str] | tuple[str, ...]
_DIGITS, _PLACE_DIGITS = 16, 6


def ident(held: Iterable[str]) -> str:
    """Sixteen hexadecimal digits that name this set of milestones."""
    return hashlib.sha256("\n".join(sorted(held)).encode()).hexdigest()[:_DIGITS]


@lru_cache(maxsize=1024)
def place(held: Names) -> str:
    """Six hexadecimal digits that name the place in the set; without one, those of no place."""
    return ident(name for name in held if name.startswith(PLACE))[:_PLACE_DIGITS]


@lru_cache(maxsize=1024)
def milestones(held: Names) -> frozenset[str]:
    """All but the place."""
    return frozenset(name for name in held if not name.startswith(PLACE))


def rank(held: Names) -> int:
    """How many required milestones the set holds."""
    return len(milestones(held))


@lru_cache(maxsize=512)
def moment(held: frozenset[str], now: frozenset[str]) -> frozenset[str]:
    """What tells this moment from others, after one that held `held`; `now`: what holds by itself.

    Milestones stay: the game forgets some facts (an item is handed over). Of places it is the last.
    """
    return milestones(held) | now if now != milestones(now) else held | now
