"""Runs months side by side, one process per core, and says how far it is."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence

from Daddy.cluster.orchestrator.simulate.jobs import Month
from Daddy.cluster.orchestrator.simulate.month import live
from Daddy.cluster.orchestrator.simulate.rows import Row, as_lived
from Daddy.cluster.orchestrator.simulate.scenario import Scenario
from Daddy.cluster.orchestrator.simulate.table import Cell, Results
from Daddy.core.clock import Clock

_Key = tuple[str, Scenario]
_Task = tuple[int, str, Scenario]
_QUIET_S = 2.0
_LOG_EVERY_S = 15.0
_CHUNK = 4


def run_rows(
    rows: Sequence[Row], seeds: int, processes: int | None, tell: Callable[[int, int], None]
) -> Results:
    """Every policy of every row with every seed; ``tell`` hears (months done, months in all)."""
    keys = {(policy, as_lived(row.scenario, policy)) for row in rows for policy in row.policies}
    ordered = sorted(keys, key=repr)
    tasks = [(seed, *key) for seed in range(seeds) for key in ordered]
    found: dict[_Key, list[tuple[int, Month]]] = defaultdict(list)
    count = processes or len(os.sched_getaffinity(0))
    with multiprocessing.get_context("spawn").Pool(count) as pool:
        months = pool.imap_unordered(_live, tasks, _CHUNK)
        for done, (seed, policy, scenario, month) in enumerate(months, 1):
            found[policy, scenario].append((seed, month))
            tell(done, len(tasks))
    return {
        row: {
            policy: _cell(found[policy, as_lived(row.scenario, policy)]) for policy in row.policies
        }
        for row in rows
    }


def _live(task: _Task) -> tuple[int, str, Scenario, Month]:
    seed, policy, scenario = task
    return seed, policy, scenario, live(scenario, policy, seed)


def _cell(months: list[tuple[int, Month]]) -> Cell:
    return Cell(tuple(month for _, month in sorted(months, key=lambda one: one[0])))


class Progress:
    """A line on stderr for whatever takes longer than two seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun = self._told = clock.monotonic()
        self._tty = sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        now = self._clock.monotonic()
        often = 0.5 if self._tty else _LOG_EVERY_S
        if now - self._begun < _QUIET_S or (now - self._told < often and done < total):
            return
        self._told = now
        spent = now - self._begun
        left = spent / done * (total - done)
        text = f"{done:,} of {total:,} months, {spent:.0f} s, about {left:.0f} s to go"
        last = "\n" if not self._tty or done == total else ""
        print(f"\r{text:70}" if self._tty else text, end=last, file=sys.stderr, flush=True)
