"""Pure. Names and ranks the key of a moment in an archive: its milestones, and its place.

The place tells moments apart but does not count: a new place is worth keeping, but attracts no
other environment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

PLACE_PREFIX: Final = "at_"
"""Prefix of `story_milestones.place_key`."""
MilestoneNames = frozenset[str] | tuple[str, ...]
_DIGITS, _PLACE_DIGITS = 16, 6


def key_hash(held: Iterable[str]) -> str:
    """Sixteen hexadecimal digits that name this set of milestones."""
    return hashlib.sha256("\n".join(sorted(held)).encode()).hexdigest()[:_DIGITS]


@lru_cache(maxsize=1024)
def place_hash(held: MilestoneNames) -> str:
    """Six hexadecimal digits that name the place in the set; without one, those of no place."""
    return key_hash(name for name in held if name.startswith(PLACE_PREFIX))[:_PLACE_DIGITS]


@lru_cache(maxsize=1024)
def milestones(held: MilestoneNames) -> frozenset[str]:
    """All but the place."""
    return frozenset(name for name in held if not name.startswith(PLACE_PREFIX))


def rank(held: MilestoneNames) -> int:
    """Number of required milestones in the set."""
    return len(milestones(held))


@lru_cache(maxsize=512)
def next_key(held: frozenset[str], now: frozenset[str]) -> frozenset[str]:
    """The key of a moment after one with the key `held`; `now` are the facts that hold at present.

    Milestones stay: the game forgets some facts (an item is handed over). The last place counts.
    """
    return milestones(held) | now if now != milestones(now) else held | now
