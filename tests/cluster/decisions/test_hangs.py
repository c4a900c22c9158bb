"""Who gives no sign of life is asked to leave, and ended when nothing comes of it."""

from __future__ import annotations

import pytest

from Daddy.cluster.orchestrator.actions import Cancel, Notify, Signal
from Daddy.cluster.orchestrator.control_parameters import Policy
from Daddy.cluster.orchestrator.decisions.hangs import end_silent
from Daddy.cluster.orchestrator.records import JobState, Ledger, Phase, QueueJob, Snapshot
from tests.cluster.decisions.conftest import NOW, queue, trains, waits

POLICY = Policy(recancel_s=60)


def treated(*attempts):
    known = Ledger(attempts)
    return end_silent(known, queue(known), POLICY, NOW)


def test_a_silent_job_is_signalled_first_and_cancelled_a_minute_later() -> None:
    hung = trains(1, 0, silent_ts=NOW - 1)
    assert [type(one) for one in treated(hung)] == [Signal]
    asked = trains(1, 0, silent_ts=NOW - 60, signalled_ts=NOW - 59)
    assert treated(asked) == []
    assert [type(one) for one in treated(trains(1, 0, silent_ts=1.0, signalled_ts=NOW - 60))] == [
        Cancel
    ]
    cancelled = trains(1, 0, silent_ts=1.0, signalled_ts=1.0, cancelled_ts=NOW - 5)
    assert treated(cancelled) == []


def test_a_job_that_beats_is_let_be() -> None:
    assert treated(trains(1, 0)) == []


def test_a_job_that_runs_and_never_takes_a_slot_is_cancelled() -> None:
    begun = {"phase": Phase.RUNNING, "started_ts": NOW - 300}
    assert [type(one) for one in treated(waits(1, **begun))] == [Cancel]
    assert treated(waits(1, **{**begun, "started_ts": NOW - 299})) == []


@pytest.mark.parametrize("word", ["CONFIGURING", "SUSPENDED"])
def test_a_job_whose_node_still_boots_or_that_is_suspended_is_waited_for(word: str) -> None:
    known = Ledger((waits(1, phase=Phase.RUNNING, started_ts=NOW - 900),))
    row = QueueJob(101, known.live[0].token, JobState.RUNNING, word)
    assert end_silent(known, Snapshot(NOW - 1, (row,)), POLICY, NOW) == []


def test_a_slow_learner_is_worth_a_word_and_is_not_killed() -> None:
    slow = trains(1, 0, progressed_ts=None, claimed_ts=NOW - 1800)
    (word,) = treated(slow)
    assert isinstance(word, Notify)
    assert "30 min without a checkpoint" in word.reason
