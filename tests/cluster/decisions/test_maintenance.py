"""What still fits before a maintenance runs; only as much as there are slots for."""

from __future__ import annotations

from dataclasses import replace

from Daddy.cluster.orchestrator.control_parameters import Policy
from Daddy.cluster.orchestrator.decisions.maintenance import shorten
from Daddy.cluster.orchestrator.records import Ledger, Waits
from tests.cluster.decisions.conftest import NOW, queue, waits

POLICY = Policy(limit_s=14_400)


def shortened(begins: float, fill: int, *attempts):
    known = Ledger(attempts)
    seen = queue(known)
    blocked = tuple(replace(job, waits=Waits.RESERVATION) for job in seen.jobs)
    seen = replace(seen, jobs=blocked, maintenance_ts=begins)
    return [(one.job_id, one.limit_s) for one in shorten(known, seen, POLICY, fill, NOW)]


def test_as_many_jobs_as_there_are_empty_slots_end_two_minutes_before() -> None:
    assert shortened(NOW + 7200, 2, waits(1), waits(2), waits(3)) == [(101, 7080), (102, 7080)]
    assert shortened(NOW + 7200, 0, waits(1)) == []


def test_a_short_rest_is_not_worth_a_boot_and_a_long_one_needs_no_change() -> None:
    assert shortened(NOW + 600, 4, waits(1)) == []
    assert shortened(NOW + 90_000, 4, waits(1)) == []


def test_a_job_that_is_short_enough_already_is_left_alone() -> None:
    assert shortened(NOW + 7200, 4, waits(1, limit_s=3600)) == []
