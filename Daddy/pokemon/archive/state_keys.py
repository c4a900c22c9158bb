"""Pure. Names and ranks the key of a state: the set of its milestones and its place.

States at a new place are kept, but only milestones count: other environments load a state because
of its milestones, never because of its place.
"""

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

PLACE_PREFIX: Final = "at_"
"""Prefix of the place in a key, as made by `story_milestones.place_key`."""
MilestoneNames = frozenset[str] | tuple[str, ...]
_DIGITS, _PLACE_DIGITS = 16, 6


def key_hash(held: Iterable[str]) -> str:
    """Return the hash of a key: sixteen hexadecimal digits."""
    return hashlib.sha256("\n".join(sorted(held)).encode()).hexdigest()[:_DIGITS]


@lru_cache(maxsize=1024)
def place_hash(held: MilestoneNames) -> str:
    """Return the hash of a key's place, or of no place: six hexadecimal digits."""
    return key_hash(name for name in held if name.startswith(PLACE_PREFIX))[:_PLACE_DIGITS]


@lru_cache(maxsize=1024)
def milestones(held: MilestoneNames) -> frozenset[str]:
    """Return the milestones of a key, without its place."""
    return frozenset(name for name in held if not name.startswith(PLACE_PREFIX))


def rank(held: MilestoneNames) -> int:
    """Return the number of milestones in a key."""
    return len(milestones(held))


@lru_cache(maxsize=512)
def next_key(held: frozenset[str], now: frozenset[str]) -> frozenset[str]:
    """Return the key that follows `held` when the milestones and the place in `now` hold.

    A milestone is never lost, although the game forgets some facts (an item is handed over).
    If `now` has no place, the place of `held` stays.
    """
    return milestones(held) | now if now != milestones(now) else held | now
