"""Pure: under what an archive files a moment of the game: the milestones it holds.

Owns the name and the rank of such a set. First entries to maps tell sets apart, but do not count:
they make a state worth keeping, never worth calling everybody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

FIRST_ENTRY: Final = "at_"
"""What `story.entry_key` begins with."""
_DIGITS: Final = 16


def ident(held: Iterable[str]) -> str:
    """Sixteen hexadecimal digits that name this set of milestones."""
    return hashlib.sha256("\n".join(sorted(held)).encode()).hexdigest()[:_DIGITS]


def rank(held: Iterable[str]) -> int:
    """How many required milestones the set holds."""
    return sum(not name.startswith(FIRST_ENTRY) for name in held)


def grown(held: AbstractSet[str], now: AbstractSet[str]) -> frozenset[str] | None:
    """The larger set when `now` holds something new; None when it does not.

    What was held stays held: the game forgets some facts (an item is handed over).
    """
    return None if now <= held else frozenset(held | now)
