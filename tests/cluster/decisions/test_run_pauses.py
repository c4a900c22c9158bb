"""An administrator's hold or cancel pauses the run until the next ``start``."""

from dataclasses import replace

from Daddy.cluster.orchestrator.action_types import Pause
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import (
    DesiredRun,
    JobOutcome,
    Ledger,
    Mode,
    WaitReason,
)
from Daddy.cluster.orchestrator.decisions.run_pauses import find_pause_reason
from Daddy.cluster.orchestrator.planner import plan
from tests.cluster.decisions.conftest import NOW, ended, queue, trains, waits

POLICY = ControllerPolicy(pass_s=30)


def cancelled(number: int, ago: float, **facts):
    return ended(number, JobOutcome.CANCELLED, ago, **facts)


def why(*attempts, **facts) -> str | None:
    known = Ledger(attempts, **facts)
    return find_pause_reason(known, queue(known), POLICY)


def test_a_job_held_by_an_administrator_pauses_the_run() -> None:
    known = Ledger((waits(1),))
    seen = queue(known)
    held = replace(seen.jobs[0], wait_reason=WaitReason.ADMIN, slurm_reason="JobHeldAdmin")
    said = find_pause_reason(known, replace(seen, jobs=(held,)), POLICY)
    assert said is not None
    assert "JobHeldAdmin" in said


def test_a_job_cancelled_by_somebody_else_pauses_the_run() -> None:
    assert why(cancelled(1, 60, canceller=0)) == "user 0 cancelled job 101"


def test_a_job_without_its_packages_pauses_the_run_until_the_next_start() -> None:
    purged = ended(1, JobOutcome.REFUSED, 60, reason="exit code 14: the environment was purged")
    said = "job 101 cannot import its packages: the environment was purged: ./scripts/install"
    assert why(purged) == said
    assert why(purged, start_seen_ts=NOW - 30) is None
    assert why(ended(1, JobOutcome.CRASHED, 60, reason="exit code 140")) is None


def test_one_cancelled_by_hand_is_only_replaced_and_two_at_once_pause() -> None:
    assert why(cancelled(1, 60)) is None
    assert why(cancelled(1, 600), cancelled(2, 60)) is None
    said = why(cancelled(1, 70), cancelled(2, 60))
    assert said is not None
    assert "101, 102" in said


def test_what_we_cancelled_ourselves_and_what_was_before_start_does_not_count() -> None:
    ours = [cancelled(n, 60, dismissed=True) for n in (1, 2)]
    assert why(*ours) is None
    assert why(cancelled(1, 70), cancelled(2, 60), start_seen_ts=NOW - 30) is None


def test_a_paused_run_submits_cancels_and_signals_nothing() -> None:
    known = Ledger((trains(1, 0), cancelled(2, 60, canceller=0)))
    (action,) = plan(DesiredRun(Mode.RUN, 4), known, queue(known), POLICY, NOW).actions
    assert isinstance(action, Pause)
    decided = plan(DesiredRun(Mode.PAUSED, 4), known, queue(known), POLICY, NOW)
    assert decided.actions == ()
    assert decided.orders is not None
    assert decided.orders.slots == {}
