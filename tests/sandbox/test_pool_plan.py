"""Decisions of a pool of sandboxes: next step, pace of creation, and reuse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Daddy.sandbox.pool_plan import (
    FAILURES,
    FIRST_WAIT_S,
    GIVE_UP_S,
    LONGEST_RETRY_AFTER_S,
    LONGEST_WAIT_S,
    MOST_AT_ONCE,
    YOUNG_S,
    CreationPace,
    PoolState,
    Usage,
    decide_reuse,
    lives_long_enough,
    plan_step,
)

PACE = CreationPace()


def action(state: PoolState, pace: CreationPace = PACE, now: float = 0.0) -> str:
    return plan_step(state, pace, now).action


def test_a_waiting_caller_gets_an_idle_sandbox_before_another_is_made() -> None:
    assert action(PoolState(size=10, waiting=5, idle=1)) == "lease"


def test_sandboxes_are_made_for_callers_and_no_more_than_they_need() -> None:
    assert action(PoolState(size=10, waiting=3, creating=2, leased=4)) == "create"
    assert action(PoolState(size=10, waiting=3, creating=3, leased=4)) == "wait"


def test_warm_sandboxes_are_made_without_callers() -> None:
    assert action(PoolState(size=10, warm=4, idle=2, creating=1)) == "create"
    assert action(PoolState(size=10, warm=4, idle=2, leased=1, creating=1)) == "wait"
    assert action(PoolState(size=10)) == "wait"


@pytest.mark.parametrize("place", ["leased", "ending", "creating"])
def test_a_sandbox_takes_its_place_until_it_is_closed(place: str) -> None:
    full, rest = {place: 3}, {"waiting": 9, "size": 3}
    assert action(PoolState(**rest, **full)) == "wait"
    assert action(PoolState(**rest, **{place: 2})) == "create"


def test_at_most_eight_are_in_creation_at_once() -> None:
    crowd = {"size": 200, "waiting": 500}
    assert action(PoolState(**crowd, creating=MOST_AT_ONCE - 1)) == "create"
    assert action(PoolState(**crowd, creating=MOST_AT_ONCE)) == "wait"


def test_a_refusal_with_retry_after_is_obeyed_and_halves_the_pace() -> None:
    pace = PACE.after_refusal(began=0.0, now=10.0, retry_after_s=7.0)
    wait = plan_step(PoolState(size=5, waiting=1), pace, 12.0)
    assert (wait.action, wait.again_in_s) == ("wait", pytest.approx(5.0))
    assert action(PoolState(size=5, waiting=1), pace, 17.0) == "create"
    assert pace.at_once == MOST_AT_ONCE // 2
    assert pace.after_success().at_once == pace.at_once + 1


def test_a_backend_cannot_ask_for_more_than_the_longest_wait() -> None:
    pace = PACE.after_refusal(began=0.0, now=0.0, retry_after_s=1e9)
    assert pace.resume_at == LONGEST_RETRY_AFTER_S
    assert PACE.after_refusal(began=0.0, now=5.0, retry_after_s=-1e9).resume_at == 5.0


def test_waits_without_retry_after_double_up_to_a_minute() -> None:
    pace, waits, now = PACE, [], 0.0
    for _ in range(12):
        pace = pace.after_refusal(began=now, now=now, retry_after_s=None)
        waits.append(pace.resume_at - now)
        now = pace.resume_at
    assert waits[:3] == pytest.approx([FIRST_WAIT_S, 2 * FIRST_WAIT_S, 4 * FIRST_WAIT_S])
    assert waits[-1] == LONGEST_WAIT_S
    assert pace.at_once == 1


def test_creations_that_fail_together_count_as_one_failure() -> None:
    pace = PACE
    for _ in range(MOST_AT_ONCE):
        pace = pace.after_failure(began=0.0, now=1.0)
    assert pace.failures == 1
    refused = PACE
    for _ in range(MOST_AT_ONCE):
        refused = refused.after_refusal(began=0.0, now=1.0, retry_after_s=2.0)
    assert (refused.refusals, refused.at_once) == (1, MOST_AT_ONCE // 2)


def failed(times: int) -> CreationPace:
    pace = PACE
    for _ in range(times):
        pace = pace.after_failure(began=pace.resume_at, now=pace.resume_at)
    return pace


def test_callers_get_the_error_after_some_failures_in_a_row_when_nothing_lives() -> None:
    alone, last = PoolState(size=5, waiting=2), failed(FAILURES)
    assert action(alone, failed(FAILURES - 1), 1e6) == "create"
    assert action(alone, last) == "give up"
    assert action(PoolState(size=5, waiting=2, leased=1), last) == "wait"
    assert action(PoolState(size=5), last) == "wait"


def test_after_giving_up_the_next_caller_is_tried_when_the_wait_is_over() -> None:
    pace = failed(FAILURES).after_giving_up()
    assert action(PoolState(size=5, waiting=1), pace, pace.resume_at - 0.1) == "wait"
    assert action(PoolState(size=5, waiting=1), pace, pace.resume_at) == "create"


def test_refusals_are_waited_out_for_ten_minutes_only() -> None:
    pace = PACE.after_refusal(began=0.0, now=0.0, retry_after_s=1.0)
    pace = pace.after_refusal(began=2.0, now=2.0, retry_after_s=1.0)
    alone = PoolState(size=5, waiting=1)
    assert action(alone, pace, GIVE_UP_S - 1) == "create"
    assert action(alone, pace, GIVE_UP_S) == "give up"


counts = st.integers(0, 12)


@given(
    state=st.builds(
        PoolState,
        size=st.integers(1, 12),
        warm=counts,
        waiting=counts,
        idle=counts,
        leased=counts,
        creating=counts,
        ending=counts,
    ),
    pace=st.builds(
        CreationPace,
        at_once=st.integers(1, 8),
        resume_at=st.floats(0, 100),
        failures=counts,
        refusals=counts,
    ),
    now=st.floats(0, 100),
)
def test_no_step_breaks_a_bound(state: PoolState, pace: CreationPace, now: float) -> None:
    step = plan_step(state, pace, now)
    if step.action == "create":
        assert state.live < state.size
        assert state.creating < pace.at_once
        assert now >= pace.resume_at
    if step.action == "lease":
        assert state.idle
        assert state.waiting
    if step.action == "wait" and state.waiting and not state.live:
        assert step.again_in_s > 0, "nothing else would wake the pool"


@pytest.mark.parametrize(
    "left", [Usage(unfinished=1), Usage(kept_files=True), Usage(persistent=True)]
)
def test_a_returned_sandbox_is_used_again_only_if_nothing_is_left_in_it(left: Usage) -> None:
    assert decide_reuse(Usage())
    assert not decide_reuse(left)


def test_a_sandbox_that_would_end_during_the_command_is_not_lent() -> None:
    assert lives_long_enough(age_s=50, lifetime_s=60, need_s=10)
    assert not lives_long_enough(age_s=51, lifetime_s=60, need_s=10)


def test_a_new_sandbox_is_lent_for_its_whole_lifetime() -> None:
    """Otherwise the pool would make and close sandboxes for ever."""
    assert lives_long_enough(age_s=YOUNG_S, lifetime_s=60, need_s=60)
    assert not lives_long_enough(age_s=2 * YOUNG_S, lifetime_s=60, need_s=60)
