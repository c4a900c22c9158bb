"""Random schedules of four writers, two mergers and retention on a file system that lags.

The product's own exchange, merger and retention run on files in memory (``lagging_fs.py``);
processes are switched at every file operation, frozen, killed and followed by successors, calls
fail, answers get lost, everything hangs for an hour (``interleaver.py``). Every change is judged
(``invariant_checker.py``).
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

from scripts.soaks.schedule import Outcome, run_schedule

_TELL_S = 15.0
_SHOWN = 20
"""Broken schedules whose findings are written out; the others are counted."""


def run(schedules: int, seed: int) -> dict[str, object]:
    """So many schedules, their seeds following from ``seed``; what they came to."""
    seeds = range(seed * 1_000_000, seed * 1_000_000 + schedules)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return summary(_told(pool.map(run_schedule, seeds, chunksize=10), schedules))


def summary(outcomes: Iterable[Outcome]) -> dict[str, object]:
    """Figures over all schedules; ``broken`` says which seed broke what."""
    total: Counter[str] = Counter()
    broken: list[dict[str, object]] = []
    for one in outcomes:
        total.update(
            schedules=1, steps=one.steps, kills=one.kills, versions=one.versions,
            contributions=one.contributions, reverts=one.reverts, broken_schedules=bool(one.broken),
        )  # fmt: skip
        if one.broken and len(broken) < _SHOWN:
            broken.append({"seed": one.seed, "found": list(one.broken[:4])})
    return {**total, "broken": broken}


def _told(outcomes: Iterable[Outcome], schedules: int) -> Iterable[Outcome]:
    """The same, with a line of progress now and then."""
    begun = told = time.monotonic()
    broken = 0
    for number, one in enumerate(outcomes, 1):
        broken += bool(one.broken)
        if one.broken or time.monotonic() - told > _TELL_S:
            told = time.monotonic()
            at = int(told - begun)
            passed = f"{at // 60:3d}:{at % 60:02d}"
            found = f"  · seed {one.seed}: {one.broken[0]}" if one.broken else ""
            said = f"{number} of {schedules} schedules, {broken} broken{found}"
            print(f"{passed}  {said}", flush=True)
        yield one
