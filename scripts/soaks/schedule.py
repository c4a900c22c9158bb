"""Runs one simulated schedule of a weights fleet from a seed, and checks its invariants."""

import contextlib
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from unittest.mock import patch

from Daddy.core.errors import DaddyError, WeightsError
from Daddy.weights.encoding.state_arithmetic import add_deltas
from Daddy.weights.exchange_settings import ExchangeSettings
from Daddy.weights.merge import cleanup
from Daddy.weights.store.rebuild_version import rebuild_state
from Daddy.weights.store.weight_records import is_reverted
from Daddy.weights.store.weight_store import Store
from Daddy.weights.weight_exchange import SharedExchange
from scripts.soaks.fs_patch import mounted
from scripts.soaks.interleaver import Interleaver, Odds
from scripts.soaks.invariant_checker import InvariantChecker
from scripts.soaks.lagging_fs import LaggingFiles
from scripts.soaks.weights_fleet import Fleet, Silent, small
from scripts.version_history import read_history

ROOT = "/lagging"
DRAIN_ROUNDS = 40


@dataclass(frozen=True)
class Outcome:
    """Holds the counts of one schedule; ``broken`` lists violated invariants."""

    seed: int
    steps: int
    kills: int
    versions: int
    contributions: int
    reverts: int
    broken: tuple[str, ...]


def run_schedule(seed: int) -> Outcome:
    """Run the schedule that follows from ``seed``."""
    interleaver = Interleaver(seed, Odds(1.0, 1.0))
    interleaver.odds = _odds(interleaver)
    settings = _settings(interleaver)
    lag_s = interleaver.chance.choice([0.0, 5.0, 60.0, 60.0])
    checker = InvariantChecker(
        ROOT, settings.keep_versions, counts=not lag_s and not interleaver.odds.trouble
    )
    files = LaggingFiles(ROOT, interleaver, lag_s, checker.changed)
    with mounted(files), _watched(checker), _quick_sweeps():
        fleet = Fleet(ROOT, interleaver, checker, settings, all_merge=interleaver.by_chance(0.5))
        interleaver.run(fleet.processes())
        for name, error in interleaver.failures:
            trace = "".join(traceback.format_exception(error)[-3:])
            checker.broken.append(f"{name} ended with {error!r}\n{trace}")
        _judge_end(fleet, interleaver, checker, settings)
    return Outcome(
        seed, interleaver.steps, interleaver.kills, len(checker.versions), len(checker.judged),
        sum(len(version.reverts) for version in checker.versions), tuple(checker.broken),
    )  # fmt: skip


def _odds(interleaver: Interleaver) -> Odds:
    pick = interleaver.chance.choice
    return Odds(
        seconds=pick([0.02, 0.2, 1.0]),
        switch=pick([1.0, 0.3, 0.05]),
        kill=pick([0.0, 0.0005, 0.003]),
        freeze=pick([0.0, 0.002]),
        outage=pick([0.0, 0.0, 0.0005]),
        trouble=pick([0.0, 0.0, 0.003]),
        lost=pick([0.0, 0.02]),
    )


def _settings(interleaver: Interleaver) -> ExchangeSettings:
    pick = interleaver.chance.choice
    return ExchangeSettings(
        run="model", workload="none", rule=pick(["delta", "delta", "polyak"]),
        period_s=pick([1.0, 10.0]), silence_s=pick([20.0, 180.0]),
        keep_versions=pick([5, 8]), wan=pick([True, False]),
    )  # fmt: skip


@contextlib.contextmanager
def _watched(checker: InvariantChecker) -> Iterator[None]:
    """Report every result of ``Store.newest`` to the invariant checker."""
    real = Store.newest

    def newest(store: Store) -> int | None:
        number = real(store)
        checker.saw(store, number)
        return number

    with patch.object(Store, "newest", newest):
        yield


def _quick_sweeps() -> contextlib.AbstractContextManager[object]:
    """Shorten the intervals of retention, because a schedule lasts minutes and not days."""
    return patch.multiple(cleanup, ORPHAN_S=900.0, SWEEP_S=100.0, GAP_S=200.0)


def _judge_end(
    fleet: Fleet, interleaver: Interleaver, checker: InvariantChecker, settings: ExchangeSettings
) -> None:
    """Check that after all delays the run continues and no contribution is missing."""
    interleaver.sleep(1000.0)
    before = len(checker.versions)
    last = SharedExchange(fleet.paths, "slot-9", "99999999", settings, fleet.clock(), Silent())
    try:
        own = dict(last.join_fleet(lambda: small(0.0, 0.0, 0.0), None).weights)
        for round_ in range(1, DRAIN_ROUNDS):
            own = add_deltas(own, small(0.1, 0.01 * round_, 0.1))
            last.publish(own, 100 * round_, round_)
            interleaver.sleep(200.0)
            if (adopted := last.adopt(own)) is not None:
                own = dict(adopted.weights)
            if checker.promised <= checker.judged and len(checker.versions) > before:
                break
    except DaddyError as error:
        checker.broken.append(f"I1: no learner can continue: {error}")
        return
    checker.broken += checker.lost()
    if len(checker.versions) <= before:
        checker.broken.append("I1: no version came after the schedule")
    _judge_history(fleet, checker)


def _judge_history(fleet: Fleet, checker: InvariantChecker) -> None:
    store, history = Store(fleet.paths), read_history(fleet.paths)
    ranges = list[tuple[int, int]]()
    for version in checker.versions:
        ranges += [(entry.first, entry.last) for entry in version.reverts]
        if any(is_reverted(entry.base_version, ranges) for entry in version.inputs):
            checker.broken.append(f"I6: v{version.version} has a reverted contribution")
    newest = checker.versions[-1]
    if not history.chained or len(history.versions) != len(checker.versions):
        checker.broken.append(f"I2: {history.flaw or 'the history is shorter than it was'}")
    try:
        if rebuild_state(store, newest) != store.read_blob(newest.state):
            checker.broken.append("I1: a replay of the newest version has other bytes")
    except WeightsError as error:
        checker.unreadable(newest.state, error)
