"""Pure: cosines between the steps of several jobs.

Deterministic as ``polyak`` is: float64 sums on the CPU in the order of names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from Daddy.weights.polyak import StateDict, norm

_NOTHING = 1e-12
"""The square of a sum of unit steps below it is rounding."""


def cosine(one: StateDict, other: StateDict) -> float:
    """Of the angle between two deltas over all floating tensors; 0 where one has no length."""
    length = norm(one) * norm(other)
    return _inside(one, other) / length if length > 0.0 and math.isfinite(length) else 0.0


def _inside(one: StateDict, other: StateDict) -> float:
    return sum(
        float((one[name].double() * other[name].double()).sum())
        for name in sorted(one)
        if one[name].is_floating_point()
    )


def numbers(delta: StateDict) -> int:
    """How many floating numbers it has: by chance a cosine is about 1 / sqrt of that."""
    return sum(each.numel() for each in delta.values() if each.is_floating_point())


def table(steps: Mapping[str, StateDict]) -> dict[tuple[str, str], float]:
    """The cosine of each pair of these jobs' steps, both ways round; of each with itself 1."""
    names = sorted(steps)
    found = {(name, name): 1.0 for name in names}
    for place, name in enumerate(names):
        for other in names[place + 1 :]:
            found[name, other] = found[other, name] = cosine(steps[name], steps[other])
    return found


def to_the_rest(
    row: Mapping[str, float], between: Mapping[tuple[str, str], float], rest: Sequence[str]
) -> float:
    """A delta's cosine to the sum of the unit steps of ``rest``, from cosines alone.

    ``row`` holds its own to each, ``between`` theirs. Each counts alike, however far it went; 0
    where theirs cancel out.
    """
    squared = sum(between[one, other] for one in rest for other in rest)
    return sum(row[one] for one in rest) / math.sqrt(squared) if squared > _NOTHING else 0.0
