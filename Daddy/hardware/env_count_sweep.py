"""A sweep of environment counts: how fast, and at what cost in memory.

What is stepped, the clock and the memory reading are passed in, so one sweep measures the real
environment in ``autotune`` and arithmetic in a test. It stops when more no longer helps.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from Daddy.core.clock import Clock
from Daddy.hardware.recommend_envs import Measurement

Step = Callable[[], int]
"""Steps all environments once; returns how many environment steps that was."""
Opener = Callable[[int], AbstractContextManager[Step]]
"""Opens so many environments; closing the context ends them."""

BURSTS = 3
GAIN_WORTH_IT = 1.05
DISAPPOINTMENTS = 2
"""Counts in a row that gain less than five per cent before the sweep ends: one may be bad luck."""


def sweep_counts(
    counts: Iterable[int],
    opener: Opener,
    resident: Callable[[], int],
    clock: Clock,
    seconds: float,
    tell: Callable[[Measurement], None] = lambda _: None,
) -> list[Measurement]:
    """Measure each count for about ``seconds``, smallest first; ``tell`` hears each result at once.

    ``resident`` answers the bytes that this process and its children hold while they step.
    """
    rows: list[Measurement] = []
    best, disappointments = 0.0, 0
    for count in counts:
        row = measure_count(count, opener, resident, clock, seconds)
        rows.append(row)
        tell(row)
        disappointments = 0 if row.steps_per_s > GAIN_WORTH_IT * best else disappointments + 1
        best = max(best, row.steps_per_s)
        if disappointments >= DISAPPOINTMENTS:
            break
    return rows


def measure_count(
    count: int, opener: Opener, resident: Callable[[], int], clock: Clock, seconds: float
) -> Measurement:
    """Steps per second with ``count`` environments: the median of three bursts after a warm-up."""
    with opener(count) as step:
        _burst(step, clock, seconds / (BURSTS + 1))
        rates = [_burst(step, clock, seconds / (BURSTS + 1)) for _ in range(BURSTS)]
        return Measurement(count, statistics.median(rates), resident())


def _burst(step: Step, clock: Clock, seconds: float) -> float:
    """Environment steps per second of about ``seconds`` of stepping, at least one step."""
    begun = clock.monotonic()
    steps = step()
    while (took := clock.monotonic() - begun) < seconds:
        steps += step()
    return steps / max(took, 1e-9)
