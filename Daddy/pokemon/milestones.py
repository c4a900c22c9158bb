"""Pure: the story's milestones as a few numbers that travel with an environment's telemetry.

A milestone is a bit of a column; a column holds as many as float32 counts exactly. Which name a
bit has is the order of `story.names`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from Daddy.pokemon import story

_BITS: Final = 24
"""Whole numbers that float32 holds exactly."""
_WIDTH: Final = -(-max(len(story.names(real=real)) for real in (True, False)) // _BITS)
COLUMNS: Final = tuple(f"reached_{number}" for number in range(_WIDTH))
"""Names in the telemetry."""


@lru_cache(maxsize=1024)
def facts(held: frozenset[str], real: bool) -> Mapping[str, float]:
    """These milestones as numbers, by column."""
    word = sum(1 << place for place, name in enumerate(story.names(real=real)) if name in held)
    words = (word >> _BITS * place & (1 << _BITS) - 1 for place in range(_WIDTH))
    return dict(zip(COLUMNS, map(float, words), strict=True))


def reached(told: Mapping[str, float]) -> tuple[str, ...]:
    """The names in an environment's facts (`COLUMNS` and ``real_game``); none where they lack."""
    if COLUMNS[0] not in told:
        return ()
    return _names(tuple(int(told[name]) for name in COLUMNS), bool(told["real_game"]))


@lru_cache(maxsize=1024)
def _names(words: tuple[int, ...], real: bool) -> tuple[str, ...]:
    all_bits = sum(word << _BITS * place for place, word in enumerate(words))
    return tuple(name for place, name in enumerate(story.names(real=real)) if all_bits >> place & 1)
