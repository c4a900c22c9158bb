"""Jobs that are held and submitted while one slot, or every slot, must stay empty."""

from dataclasses import replace

import pytest

from Daddy.cluster.orchestrator.action_types import Action, Amend, Notify, Submit
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import (
    Attempt,
    DesiredRun,
    JobOutcome,
    Ledger,
    Mode,
    Phase,
    SiteLimits,
    WaitReason,
)
from Daddy.cluster.orchestrator.decisions.job_submission import shorten_time_limits
from Daddy.cluster.orchestrator.planner import plan
from tests.cluster.decisions.conftest import NOW, ended, given, queue, trains, waits

CHAIN = ControllerPolicy(
    max_running=4, spares=4, extra=4, delays_s=(0, 60, 300), breaker_failures=3
)
POOL = ControllerPolicy(max_running=4, spares=4, extra=4, delays_s=(0, 60, 300), breaker_failures=3,
              enforced=True)  # fmt: skip
REFUSED = ended(1, JobOutcome.REFUSED, slot=3, claimed_ts=NOW - 70)
"""Keeps slot 3 empty until the person runs ``start``."""


def decide(policy: ControllerPolicy, *attempts: Attempt) -> tuple[Action, ...]:
    """Return the planned actions without notifications."""
    known = Ledger(attempts, site=SiteLimits(enforced=policy.enforced))
    actions = plan(DesiredRun(Mode.RUN, 4), known, queue(known), policy, NOW).actions
    return tuple(action for action in actions if not isinstance(action, Notify))


def amended(actions: tuple[Action, ...]) -> list[tuple[int, bool | None]]:
    """Return pairs of job id and hold."""
    return [(action.job_id, action.hold) for action in actions if isinstance(action, Amend)]


def behind(number: int, predecessor: Attempt, **facts) -> Attempt:
    return waits(number, after=predecessor.job_id, **facts)


FLEET = tuple(trains(10 + slot, slot) for slot in range(3))


def test_of_a_pool_as_many_may_start_as_slots_are_to_be_filled_and_the_oldest_first() -> None:
    actions = decide(POOL, REFUSED, *FLEET[:2], waits(20), waits(21), waits(22))
    assert amended(actions) == [(121, True), (122, True)]
    assert not [job for job in actions if isinstance(job, Submit)]


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.INTENT])
def test_who_is_on_the_way_to_a_slot_takes_one_of_the_places(phase: Phase) -> None:
    """The job runs without a slot so far, or its submission is unanswered."""
    coming = waits(20, phase=phase, started_ts=NOW - 1 if phase is Phase.RUNNING else None)
    assert amended(decide(POOL, REFUSED, *FLEET[:2], coming, waits(21, held=True))) == []


def test_who_is_perhaps_not_there_and_could_not_start_if_it_were_takes_no_place() -> None:
    asked = behind(20, FLEET[0], phase=Phase.INTENT)
    assert decide(CHAIN, REFUSED, FLEET[0], FLEET[2], asked, behind(21, FLEET[2]), waits(22)) == ()


def test_while_the_breaker_is_open_one_canary_is_let_go_and_no_second_while_it_starts() -> None:
    failed = [
        ended(n, JobOutcome.CRASHED, 9000 - n, slot=n, claimed_ts=NOW - 9010) for n in range(4)
    ]
    held = [waits(n, held=True) for n in (20, 21)]
    first = decide(POOL, *failed, *held)
    assert amended(first) == [(120, False)]
    starts = waits(20, phase=Phase.RUNNING, started_ts=NOW - 1)
    assert amended(decide(POOL, *failed, starts, held[1])) == []


def test_successors_in_line_are_not_held_for_a_slot_that_is_not_theirs() -> None:
    successors = [behind(20 + slot, job) for slot, job in enumerate(FLEET)]
    assert decide(CHAIN, REFUSED, *FLEET, *successors) == ()


def test_who_may_start_is_let_go_and_not_an_older_one_that_cannot_yet() -> None:
    """The scheduler requeued a job; its successor must wait for it."""
    again = waits(11, restarts=1)
    successors = [behind(20, again), waits(21, held=True)]
    actions = decide(CHAIN, REFUSED, again, FLEET[0], *successors, behind(22, FLEET[0]))
    assert amended(actions) == [(120, True), (121, False)]


def test_whose_turn_it_is_keeps_it_though_an_older_one_was_held_for_the_slot_that_fails() -> None:
    gone = ended(11, JobOutcome.DRAINED, slot=1, claimed_ts=NOW - 90, progressed_ts=NOW - 70)
    waiting = [waits(20, held=True), behind(21, gone), behind(22, FLEET[0]), behind(23, FLEET[2])]
    assert decide(CHAIN, REFUSED, gone, FLEET[0], FLEET[2], *waiting) == ()


def test_who_is_held_for_the_slot_that_fails_is_nobodys_successor() -> None:
    waiting = [waits(19, held=True), behind(20, FLEET[0]), behind(21, FLEET[1])]
    (wish,) = decide(CHAIN, REFUSED, *FLEET, *waiting)
    assert isinstance(wish, Submit)
    assert wish.after == FLEET[2].job_id


def test_an_empty_slot_is_filled_although_heirs_of_others_wait() -> None:
    successors = [behind(20, FLEET[0]), behind(22, FLEET[2])]
    actions = decide(CHAIN, REFUSED, FLEET[0], FLEET[2], *successors)
    assert [job for job in actions if isinstance(job, Submit)] == [Submit("a slot is empty")]


def test_while_a_slot_is_held_successors_in_line_are_submitted_those_of_a_pool_are_not() -> None:
    wishes = decide(CHAIN, REFUSED, *FLEET)
    assert [job.after for job in wishes if isinstance(job, Submit)] == [job.job_id for job in FLEET]
    assert decide(POOL, REFUSED, *FLEET) == ()


def test_heirs_are_held_while_a_slot_is_and_nobody_gets_anywhere() -> None:
    """A successor would fail as well, so none starts before a job makes progress."""
    lost = tuple(trains(10 + slot, slot, progressed_ts=None) for slot in range(3))
    successors = [behind(20 + slot, job) for slot, job in enumerate(lost)]
    assert amended(decide(CHAIN, REFUSED, *lost, *successors)) == [
        (120, True),
        (121, True),
        (122, True),
    ]


def test_while_nothing_may_start_heirs_are_held_too() -> None:
    unclaimed = [ended(n, JobOutcome.CRASHED, 5 + n) for n in (2, 1)]
    successors = [behind(20 + slot, job) for slot, job in enumerate(FLEET)]
    actions = decide(CHAIN, *unclaimed, *FLEET, *successors)
    assert amended(actions) == [(120, True), (121, True), (122, True)]


LIMITED = ControllerPolicy(limit_s=14_400)


def shortened(begins: float, fill: int, *attempts):
    known = Ledger(attempts)
    seen = queue(known)
    blocked = tuple(replace(job, wait_reason=WaitReason.RESERVATION) for job in seen.jobs)
    seen = replace(seen, jobs=blocked, maintenance_ts=begins)
    inputs = replace(given(known, seen, LIMITED), fill=fill)
    return [(job.job_id, job.limit_s) for job in shorten_time_limits(inputs)]


def test_as_many_jobs_as_there_are_empty_slots_end_two_minutes_before() -> None:
    assert shortened(NOW + 7200, 2, waits(1), waits(2), waits(3)) == [(101, 7080), (102, 7080)]
    assert shortened(NOW + 7200, 0, waits(1)) == []


def test_a_short_rest_is_not_worth_a_boot_and_a_long_one_needs_no_change() -> None:
    assert shortened(NOW + 600, 4, waits(1)) == []
    assert shortened(NOW + 90_000, 4, waits(1)) == []


def test_a_job_that_is_short_enough_already_is_left_alone() -> None:
    assert shortened(NOW + 7200, 4, waits(1, limit_s=3600)) == []
