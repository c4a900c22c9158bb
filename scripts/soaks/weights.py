"""Random schedules of four writers, two mergers and retention on a file system that lags.

The product's own exchange, merger and retention run on files in memory (``lagging_fs.py``);
processes are switched at every file operation, frozen, killed and followed by successors, calls
fail, replies get lost, everything hangs for an hour (``interleaver.py``). Every change is checked
(``invariant_checker.py``).
"""

import time
from collections import Counter
from collections.abc import Iterable

from Daddy.core.host_and_processes import usable_cores
from Daddy.core.process_pool import process_pool
from scripts.soaks.schedule import Outcome, run_schedule

_TELL_S = 15.0
_SHOWN = 20
"""Broken schedules whose findings are written out; the others are counted."""


def run(schedules: int, seed: int) -> dict[str, object]:
    """Run that many schedules with seeds from ``seed`` on; return their figures."""
    seeds = range(seed * 1_000_000, seed * 1_000_000 + schedules)
    with process_pool(usable_cores()) as pool:
        return summary(_told(pool.imap(run_schedule, seeds, chunksize=10), schedules))


def summary(outcomes: Iterable[Outcome]) -> dict[str, object]:
    """Return figures over all schedules; ``broken`` names seeds and the invariants they broke."""
    total: Counter[str] = Counter()
    broken: list[dict[str, object]] = []
    for outcome in outcomes:
        total.update(
            schedules=1, steps=outcome.steps, kills=outcome.kills, versions=outcome.versions,
            contributions=outcome.contributions, reverts=outcome.reverts,
            broken_schedules=bool(outcome.broken),
        )  # fmt: skip
        if outcome.broken and len(broken) < _SHOWN:
            broken.append({"seed": outcome.seed, "found": list(outcome.broken[:4])})
    return {**total, "broken": broken}


def _told(outcomes: Iterable[Outcome], schedules: int) -> Iterable[Outcome]:
    """Yield the outcomes; print a line of progress now and then."""
    begun = told = time.monotonic()
    broken = 0
    for number, outcome in enumerate(outcomes, 1):
        broken += bool(outcome.broken)
        if outcome.broken or time.monotonic() - told > _TELL_S:
            told = time.monotonic()
            at = int(told - begun)
            passed = f"{at // 60:3d}:{at % 60:02d}"
            found = f"  · seed {outcome.seed}: {outcome.broken[0]}" if outcome.broken else ""
            said = f"{number} of {schedules} schedules, {broken} broken{found}"
            print(f"{passed}  {said}", flush=True)
        yield outcome
