"""Passes are rare while nothing changes, and frequent around a change."""

from dataclasses import replace
from math import inf

from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import DesiredRun, JobOutcome, Ledger, Mode
from Daddy.cluster.orchestrator.planner import plan
from tests.cluster.decisions.conftest import NOW, ended, queue, trains, waits

POLICY = ControllerPolicy(
    pass_s=30, quiet_pass_s=150, hot_pass_s=10, max_running=2, spares=2, extra=0,
    enforced=True, absence_gap_s=30,
)  # fmt: skip
RUN = DesiredRun(Mode.RUN, 2)
FULL = (trains(1, 0), trains(2, 1), waits(3), waits(4))


def wake(*attempts, **facts) -> float:
    known = Ledger(attempts)
    return plan(RUN, known, queue(known, **facts), POLICY, NOW).wake_at - NOW


def due(*attempts) -> float:
    known = Ledger(attempts)
    return plan(RUN, known, queue(known), POLICY, NOW).due_at


def test_a_full_fleet_is_looked_at_rarely_and_a_fresh_submission_soon() -> None:
    assert wake(*FULL) == 150
    assert wake(*FULL[:3]) == 30  # a successor is submitted now
    assert wake(*FULL[:3], waits(4, intended_ts=NOW - 60)) == 10


def test_around_a_real_end_it_looks_often() -> None:
    rows = queue(Ledger(FULL)).jobs
    near = (replace(rows[0], ends_ts=NOW + 30), *rows[1:])
    assert wake(*FULL, jobs=near) == 10
    far = (replace(rows[0], ends_ts=NOW + 3600), *rows[1:])
    assert wake(*FULL, jobs=far) == 150


def test_what_is_due_without_anything_new_is_said() -> None:
    assert due(*FULL) == inf
    assert due(*FULL[1:], trains(1, 0, absences=1, absent_ts=NOW - 10)) == NOW + 20
    crash = [ended(n, JobOutcome.CRASHED, 5, slot=1) for n in (8, 9)]
    held = due(*crash, trains(1, 0), waits(3, held=True))
    assert NOW + 30 < held < NOW + 80


def test_a_job_that_waits_for_an_empty_slot_is_due_when_that_makes_the_queue_slow() -> None:
    assert due(trains(1, 0), waits(3, intended_ts=NOW - 20), waits(4)) == NOW + 40
