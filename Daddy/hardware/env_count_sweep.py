"""Measures steps per second and memory for growing numbers of environments (a sweep).

The environments, the clock and the memory reading are passed in: ``autotune`` passes the real ones
and tests pass fakes. The sweep stops when more environments no longer raise the rate.
"""

import statistics
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from Daddy.core.clock import Clock
from Daddy.hardware.recommend_envs import Measurement

Step = Callable[[], int]
"""Steps all environments once; returns the number of environment steps."""
Opener = Callable[[int], AbstractContextManager[Step]]
"""Opens a number of environments; the end of the context closes them."""

BURSTS = 3
GAIN_WORTH_IT = 1.05
DISAPPOINTMENTS = 2
"""Counts in a row that gain less than five per cent before the sweep ends; one may be noise."""


def sweep_counts(
    counts: Iterable[int],
    opener: Opener,
    resident: Callable[[], int],
    clock: Clock,
    seconds: float,
    report: Callable[[Measurement], None] = lambda _: None,
) -> list[Measurement]:
    """Measure each of ``counts`` environments for about ``seconds``; pass each to ``report``.

    ``resident`` returns this process tree's memory in bytes. Two counts without gain end the sweep.
    """
    rows: list[Measurement] = []
    best, disappointments = 0.0, 0
    for count in counts:
        row = measure_count(count, opener, resident, clock, seconds)
        rows.append(row)
        report(row)
        disappointments = 0 if row.steps_per_s > GAIN_WORTH_IT * best else disappointments + 1
        best = max(best, row.steps_per_s)
        if disappointments >= DISAPPOINTMENTS:
            break
    return rows


def measure_count(
    count: int, opener: Opener, resident: Callable[[], int], clock: Clock, seconds: float
) -> Measurement:
    """Measure ``count`` environments: steps/s (median of three bursts) and resident bytes."""
    with opener(count) as step:
        _burst(step, clock, seconds / (BURSTS + 1))
        rates = [_burst(step, clock, seconds / (BURSTS + 1)) for _ in range(BURSTS)]
        return Measurement(count, statistics.median(rates), resident())


def _burst(step: Step, clock: Clock, seconds: float) -> float:
    """Call ``step`` for about ``seconds``, at least once; return environment steps per second."""
    begun = clock.monotonic()
    steps = step()
    while (took := clock.monotonic() - begun) < seconds:
        steps += step()
    return steps / max(took, 1e-9)
