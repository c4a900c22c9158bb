"""Pure. Lists the faults of `soak slurm` with their lengths, and draws a schedule from a seed."""

import random
from collections.abc import Iterable

LASTS_S = {
    "kill controller": (0.5, 20.0),
    "kill slurmctld": (0.5, 15.0),
    "kill slurmd": (2.0, 35.0),
    "kill job": (0.0, 0.0),
    "freeze slurmctld": (60.0, 120.0),
    "failing prolog": (75.0, 75.0),
    "empty listing": (35.0, 60.0),
    "failing setup": (40.0, 70.0),
    "full disk": (40.0, 70.0),
}
"""Shortest and longest length of each fault in seconds; an empty listing is believed after 30 s."""
_PEACE_S = (10.0, 30.0)
"""Least and most seconds without a fault before each one."""
_CALM_S = 25.0
"""Seconds without a fault at the end."""


def plan_faults(
    rng: random.Random, seconds: float, kinds: Iterable[str] = LASTS_S
) -> list[tuple[float, str]]:
    """Return (seconds from the start, kind): random rounds of all ``kinds``, none overlaps."""
    every, left, times, at = list(kinds), list[str](), list[tuple[float, str]](), 0.0
    while True:
        left = left or rng.sample(every, len(every))
        kind = left.pop()
        at += rng.uniform(*_PEACE_S)
        if at + LASTS_S[kind][1] > seconds - _CALM_S:
            return times
        times.append((at, kind))
        at += LASTS_S[kind][1]
