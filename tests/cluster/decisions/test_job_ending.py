"""Hung jobs are signalled, then cancelled; one slot is freed for the person's own job."""

from dataclasses import replace

import pytest

from Daddy.cluster.orchestrator.action_types import Amend, Cancel, Notify, Signal, Submit
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import (
    DesiredRun,
    JobState,
    Ledger,
    Mode,
    Phase,
    QueueJob,
    SiteLimits,
    Snapshot,
    WaitReason,
)
from Daddy.cluster.orchestrator.decisions.job_ending import end_silent_jobs
from Daddy.cluster.orchestrator.planner import plan
from tests.cluster.decisions.conftest import NOW, given, queue, trains, waits

POLICY = ControllerPolicy(recancel_s=60)


def treated(*attempts):
    known = Ledger(attempts)
    return end_silent_jobs(given(known, queue(known), POLICY))


def test_a_silent_job_is_signalled_first_and_cancelled_a_minute_later() -> None:
    hung = trains(1, 0, silent_ts=NOW - 1)
    assert [type(action) for action in treated(hung)] == [Signal]
    asked = trains(1, 0, silent_ts=NOW - 60, signalled_ts=NOW - 59)
    assert treated(asked) == []
    assert [
        type(action) for action in treated(trains(1, 0, silent_ts=1.0, signalled_ts=NOW - 60))
    ] == [Cancel]
    cancelled = trains(1, 0, silent_ts=1.0, signalled_ts=1.0, cancelled_ts=NOW - 5)
    assert treated(cancelled) == []


def test_a_job_that_started_in_spite_of_a_cancel_is_asked_to_leave_before_the_next() -> None:
    assert treated(trains(1, 0, silent_ts=1.0, cancelled_ts=NOW - 5)) == []
    stubborn = trains(1, 0, silent_ts=1.0, cancelled_ts=NOW - 61)
    assert [type(action) for action in treated(stubborn)] == [Signal]
    asked = trains(1, 0, silent_ts=1.0, cancelled_ts=NOW - 99, signalled_ts=NOW - 61)
    assert [type(action) for action in treated(asked)] == [Cancel]


def test_a_job_that_beats_is_let_be() -> None:
    assert treated(trains(1, 0)) == []


def test_a_job_that_runs_and_never_takes_a_slot_is_cancelled() -> None:
    begun = {"phase": Phase.RUNNING, "started_ts": NOW - 300}
    assert [type(action) for action in treated(waits(1, **begun))] == [Cancel]
    assert treated(waits(1, **{**begun, "started_ts": NOW - 299})) == []


@pytest.mark.parametrize("word", ["CONFIGURING", "SUSPENDED"])
def test_a_job_whose_node_still_boots_or_that_is_suspended_is_waited_for(word: str) -> None:
    known = Ledger((waits(1, phase=Phase.RUNNING, started_ts=NOW - 900),))
    row = QueueJob(101, known.live[0].token, JobState.RUNNING, word)
    assert end_silent_jobs(given(known, Snapshot(NOW - 1, (row,)), POLICY)) == []


def test_a_slow_learner_is_worth_a_word_and_is_not_killed() -> None:
    slow = trains(1, 0, progressed_ts=None, claimed_ts=NOW - 1800)
    (word,) = treated(slow)
    assert isinstance(word, Notify)
    assert "30 min without a checkpoint" in word.reason


TWO = ControllerPolicy(max_running=2, spares=2, extra=0)
OWN = QueueJob(
    7, "", JobState.PENDING, "PENDING", "QOSMaxJobsPerUserLimit", wait_reason=WaitReason.CAP
)


def decide(known: Ledger, *others: QueueJob):
    seen = queue(known, others=others)
    return plan(DesiredRun(Mode.RUN, 2), known, seen, TWO, NOW).actions


def fleet(*attempts) -> Ledger:
    return Ledger(attempts, site=SiteLimits(enforced=True))


def test_spares_are_held_and_the_slot_that_ends_first_makes_room() -> None:
    known = fleet(trains(1, 0, started_ts=NOW - 900), trains(2, 1), waits(3), waits(4))
    actions = decide(known, OWN)
    assert [action.job_id for action in actions if isinstance(action, Signal)] == [101]
    assert [(action.job_id, action.hold) for action in actions if isinstance(action, Amend)] == [
        (103, True),
        (104, True),
    ]


def test_only_one_slot_leaves_and_nothing_is_submitted_meanwhile() -> None:
    leaving = trains(1, 0, signalled_ts=NOW - 5)
    assert decide(fleet(leaving, trains(2, 1), waits(3, held=True)), OWN) == ()
    assert decide(fleet(trains(2, 1), waits(3, held=True)), OWN) == ()


def test_the_slot_is_filled_again_once_the_other_job_runs() -> None:
    runs = replace(OWN, state=JobState.RUNNING, wait_reason=WaitReason.TURN)
    actions = decide(fleet(trains(2, 1), waits(3, held=True), waits(4, held=True)), runs)
    assert {type(action) for action in actions} == {Amend}
    assert all(action.hold is False for action in actions if isinstance(action, Amend))


def test_another_run_of_ours_and_jobs_that_wait_for_their_turn_move_nobody() -> None:
    known = fleet(trains(1, 0), trains(2, 1), waits(3), waits(4))
    assert decide(known, replace(OWN, run_id="other-run")) == ()
    assert decide(known, replace(OWN, wait_reason=WaitReason.TURN)) == ()
    assert not any(isinstance(action, Submit) for action in decide(known))


def test_a_drain_signals_a_running_job_that_the_listing_lacks() -> None:
    known = Ledger((trains(1, 0), trains(2, 1), waits(3)))
    seen = queue(Ledger((trains(2, 1), waits(3))))
    asked = plan(DesiredRun(Mode.DRAIN, 2), known, seen, POLICY, NOW).actions
    assert {action.token[-1]: type(action) for action in asked} == {
        "1": Signal,
        "2": Signal,
        "3": Cancel,
    }
