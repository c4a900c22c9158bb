"""The person's own job comes first; another run of ours does not."""

from __future__ import annotations

from dataclasses import replace

from Daddy.cluster.orchestrator.actions import Amend, Signal, Submit
from Daddy.cluster.orchestrator.control_parameters import Policy
from Daddy.cluster.orchestrator.plan import plan
from Daddy.cluster.orchestrator.records import (
    Desired,
    JobState,
    Ledger,
    Mode,
    QueueJob,
    Site,
    Waits,
)
from tests.cluster.decisions.conftest import NOW, queue, trains, waits

POLICY = Policy(max_running=2, spares=2, extra=0)
OWN = QueueJob(7, "", JobState.PENDING, "PENDING", "QOSMaxJobsPerUserLimit", waits=Waits.CAP)


def decide(known: Ledger, *others: QueueJob):
    seen = queue(known, others=others)
    return plan(Desired(Mode.RUN, 2), known, seen, POLICY, NOW).actions


def fleet(*attempts) -> Ledger:
    return Ledger(attempts, site=Site(enforced=True))


def test_spares_are_held_and_the_slot_that_ends_first_makes_room() -> None:
    known = fleet(trains(1, 0, started_ts=NOW - 900), trains(2, 1), waits(3), waits(4))
    actions = decide(known, OWN)
    assert [one.job_id for one in actions if isinstance(one, Signal)] == [101]
    assert [(one.job_id, one.hold) for one in actions if isinstance(one, Amend)] == [
        (103, True),
        (104, True),
    ]


def test_only_one_slot_leaves_and_nothing_is_submitted_meanwhile() -> None:
    leaving = trains(1, 0, signalled_ts=NOW - 5)
    assert decide(fleet(leaving, trains(2, 1), waits(3, held=True)), OWN) == ()
    assert decide(fleet(trains(2, 1), waits(3, held=True)), OWN) == ()


def test_the_slot_is_filled_again_once_the_other_job_runs() -> None:
    runs = replace(OWN, state=JobState.RUNNING, waits=Waits.TURN)
    actions = decide(fleet(trains(2, 1), waits(3, held=True), waits(4, held=True)), runs)
    assert {type(one) for one in actions} == {Amend}
    assert all(one.hold is False for one in actions if isinstance(one, Amend))


def test_another_run_of_ours_and_jobs_that_wait_for_their_turn_move_nobody() -> None:
    known = fleet(trains(1, 0), trains(2, 1), waits(3), waits(4))
    assert decide(known, replace(OWN, run_id="other-run")) == ()
    assert decide(known, replace(OWN, waits=Waits.TURN)) == ()
    assert not any(isinstance(one, Submit) for one in decide(known))
