"""The planner by examples: each test gives one state and the expected actions."""

from dataclasses import replace

import pytest

from Daddy.cluster.orchestrator.action_types import Amend, Cancel, Conclude, EndTerm, Signal, Submit
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import (
    Attempt,
    DesiredRun,
    JobOutcome,
    JobState,
    Ledger,
    Mode,
    Orders,
    Orphan,
    Phase,
    QueueJob,
    SiteLimits,
    Snapshot,
    UnknownQueue,
)
from Daddy.cluster.orchestrator.planner import plan
from tests.cluster.world import attempt_of

NOW = 10_000.0
POLICY = ControllerPolicy(max_running=4, spares=4, extra=0, enforced=True)
CHAIN = replace(POLICY, enforced=False)
LATE = SiteLimits(counts_waiting=True)
RUN = DesiredRun(Mode.RUN, 4)


def attempt(number: int, **facts) -> Attempt:
    basics = {"token": f"{number:012x}", "number": number, "phase": Phase.SUBMITTED}
    return attempt_of(**{**basics, "intended_ts": NOW - 60, "job_id": 100 + number, **facts})


def trains(number: int, slot: int, **facts) -> Attempt:
    """A job that holds a slot and has written a checkpoint."""
    facts = {"started_ts": NOW - 50, "progressed_ts": NOW - 10, **facts}
    return attempt(number, phase=Phase.RUNNING, slot=slot, term=1, **facts)


def crashed(number: int, slot: int | None, ago: float) -> Attempt:
    facts = {"ended_ts": NOW - ago, "outcome": JobOutcome.CRASHED, "reason": "exit code 1"}
    return attempt(number, phase=Phase.ENDED, slot=slot, node=f"n{number}", **facts)


def ledger(*attempts: Attempt, **facts) -> Ledger:
    return Ledger(attempts=attempts, **facts)


def listing_of(known: Ledger) -> Snapshot:
    jobs = [
        QueueJob(
            attempt.job_id or 0,
            attempt.token,
            JobState.RUNNING if attempt.phase is Phase.RUNNING else JobState.PENDING,
            attempt.phase.name,
        )
        for attempt in known.live
    ]
    return Snapshot(NOW - 1, tuple(jobs))


def decide(known: Ledger, desired: DesiredRun = RUN, policy: ControllerPolicy = POLICY):
    return plan(desired, known, listing_of(known), policy, NOW).actions


def test_an_empty_run_gets_one_job_for_each_slot() -> None:
    assert [type(action) for action in decide(ledger())] == [Submit] * 4


def test_each_job_that_trains_gets_a_successor_in_the_queue() -> None:
    known = ledger(trains(1, 0), trains(2, 1), attempt(3), attempt(4))
    assert decide(known) == (Submit("successor, as slots train"),) * 2


def test_jobs_of_an_unproven_release_get_no_successor_before_their_first_checkpoint() -> None:
    """Four jobs that fail together would take four successors with them."""
    young = [trains(n, n, progressed_ts=None, release="new") for n in range(4)]
    assert decide(ledger(*young)) == ()
    assert len(decide(ledger(*young, proven=("new",)))) == 4


def test_while_nobody_gets_anywhere_only_the_tries_that_the_breaker_leaves_are_made() -> None:
    dead = [crashed(n, n, ago=30.0) for n in range(4)]
    assert [type(action) for action in decide(ledger(*dead))] == [Submit]
    assert decide(ledger(*dead, trains(5, 0, progressed_ts=None))) == ()


STOPPED = replace(RUN, stopped_slots=(1,))


def test_a_stopped_slot_s_job_is_signalled_and_its_successor_cancelled() -> None:
    successors = attempt(8, after=101), attempt(9, after=102)
    known = ledger(*(trains(n, n) for n in range(4)), *successors)
    actions = decide(known, STOPPED, CHAIN)
    ended = [(type(action), action.token) for action in actions if type(action) is not Submit]
    assert ended == [(Signal, known.attempts[1].token), (Cancel, known.attempts[4].token)]
    behind = {action.after for action in actions if isinstance(action, Submit)}
    assert behind < {100, 103}, "no successor of the stopped slot's job"
    asked = replace(known.attempts[1].requests, signalled_ts=NOW - POLICY.drain_s - 1)
    known = ledger(trains(0, 0), replace(known.attempts[1], requests=asked))
    assert Cancel in map(type, decide(known, STOPPED, CHAIN)), "it did not leave"


def test_a_stopped_slot_is_not_filled_and_the_others_are() -> None:
    decided = plan(STOPPED, ledger(), listing_of(ledger()), POLICY, NOW)
    assert [type(action) for action in decided.actions] == [Submit] * 3
    assert decided.orders is not None
    assert set(decided.orders.slots) == {0, 2, 3}
    full = ledger(*(trains(n, n) for n in (0, 2, 3)), site=SiteLimits(max_running=4))
    assert decide(full, STOPPED) == (), "our own queue would start a successor at once"
    assert len(decide(full, STOPPED, CHAIN)) == 3
    surplus = ledger(*full.attempts, attempt(9), site=full.site)
    assert [type(action) for action in decide(surplus, STOPPED)] == [Cancel]


def test_a_new_release_is_not_tried_in_a_stopped_slot() -> None:
    known = ledger(*(trains(n, n, release="old") for n in (0, 2, 3)), proven=("old",))
    decided = plan(replace(STOPPED, release="new"), known, listing_of(known), POLICY, NOW)
    assert decided.orders is not None
    assert decided.orders.slots == {0: "new", 2: "old", 3: "old"}
    closed = replace(STOPPED, release="new", stopped_slots=(0, 1, 2, 3))
    assert plan(closed, known, listing_of(known), POLICY, NOW).orders == Orders()


def test_a_full_fleet_with_successors_is_left_alone() -> None:
    known = ledger(*(trains(n, n) for n in range(4)), *(attempt(n) for n in range(4, 8)))
    assert decide(known) == ()


@pytest.mark.parametrize("mode", list(Mode))
def test_an_unknown_queue_leads_to_no_action_whatever_is_wanted(mode: Mode) -> None:
    known = ledger(trains(1, 0), attempt(2), orphans=(Orphan(1, 3, "gone"),))
    decided = plan(DesiredRun(mode, 4), known, UnknownQueue(NOW, "Socket timed out"), POLICY, NOW)
    assert decided.actions == ()
    assert "Socket timed out" in decided.reasons[0]
    assert decided.wake_at > NOW


def test_an_intent_without_an_answer_counts_as_a_job() -> None:
    known = ledger(*(attempt(n, phase=Phase.INTENT, job_id=None) for n in range(4)))
    assert decide(known) == ()


def test_a_job_that_left_its_slot_makes_room_before_it_is_gone() -> None:
    leaving = trains(1, 0, left_ts=NOW - 1)
    known = ledger(leaving, *(trains(n, n) for n in (1, 2, 3)), attempt(9))
    assert [type(action) for action in decide(known)] == [Submit] * 3


def test_a_chain_waits_behind_its_own_predecessor_and_only_once() -> None:
    known = ledger(
        trains(1, 0), trains(2, 1), trains(3, 2), trains(4, 3), attempt(5, after=102),
    )  # fmt: skip
    assert {action.after for action in decide(known, policy=CHAIN)} == {101, 103, 104}


def test_late_mode_queues_nothing_ahead() -> None:
    known = ledger(trains(1, 0), trains(2, 1), trains(3, 2), site=LATE)
    assert decide(known) == (Submit("a slot is empty"),)


def test_more_jobs_than_the_run_may_have_are_taken_back_newest_first() -> None:
    known = ledger(*(trains(n, n) for n in range(4)), *(attempt(n) for n in range(4, 10)))
    taken = [action.job_id for action in decide(known) if isinstance(action, Cancel)]
    assert taken == [109, 108]


def test_a_dead_holders_slot_is_freed() -> None:
    known = ledger(orphans=(Orphan(2, 7, "its job is gone"),))
    assert EndTerm(2, 7, "its job is gone") in decide(known)


def test_drain_cancels_what_waits_and_then_signals_what_trains() -> None:
    known = ledger(trains(1, 0), attempt(2))
    cancel, signal = decide(known, DesiredRun(Mode.DRAIN, 4))
    assert isinstance(signal, Signal)
    assert isinstance(cancel, Cancel)
    assert (signal.job_id, cancel.job_id) == (101, 102)


def test_a_signalled_job_gets_its_time_and_not_more() -> None:
    waits = trains(1, 0, signalled_ts=NOW - POLICY.drain_s + 1)
    assert decide(ledger(waits), DesiredRun(Mode.DRAIN, 4)) == ()
    over = trains(1, 0, signalled_ts=NOW - POLICY.drain_s)
    assert isinstance(decide(ledger(over), DesiredRun(Mode.DRAIN, 4))[0], Cancel)


def test_stop_now_cancels_at_once_and_asks_again_later() -> None:
    known = ledger(trains(1, 0))
    assert isinstance(decide(known, DesiredRun(Mode.NOW, 4))[0], Cancel)
    asked = ledger(trains(1, 0, cancelled_ts=NOW - 1))
    assert decide(asked, DesiredRun(Mode.NOW, 4)) == ()
    long_ago = ledger(trains(1, 0, cancelled_ts=NOW - POLICY.recancel_s))
    assert isinstance(decide(long_ago, DesiredRun(Mode.NOW, 4))[0], Cancel)


@pytest.mark.parametrize(("mode", "final"), [(Mode.DRAIN, Mode.STOPPED), (Mode.DONE, Mode.DONE)])
def test_a_run_concludes_when_no_job_is_left(mode: Mode, final: Mode) -> None:
    (action,) = decide(ledger(crashed(1, 0, 5)), DesiredRun(mode, 4))
    assert isinstance(action, Conclude)
    assert action.mode is final


def test_a_slot_that_fails_again_is_held_and_its_neighbours_are_not() -> None:
    failing = [crashed(1, 3, 40), crashed(2, 3, 5)]
    known = ledger(*failing, trains(3, 0), trains(4, 1), trains(5, 2))
    decided = plan(RUN, known, listing_of(known), POLICY, NOW)
    assert decided.actions == ()
    assert "2 failures in a row in slot 3" in decided.reasons[0]
    assert decided.wake_at <= NOW + 80
    handed_over = ledger(*failing, trains(3, 0, left_ts=NOW - 1), trains(4, 1), trains(5, 2))
    assert decide(handed_over) == (Submit("a slot is empty"),)


def test_a_successor_that_would_fill_a_held_slot_is_held_in_its_place() -> None:
    known = ledger(crashed(1, 3, 40), crashed(2, 3, 5), *(trains(n, n - 3) for n in (3, 4, 5)),
                   attempt(9))  # fmt: skip
    (action,) = decide(known)
    assert isinstance(action, Amend)
    assert (action.job_id, action.hold) == (109, True)
    held = replace(known, attempts=(*known.attempts[:-1], attempt(9, held=True)))
    assert decide(held) == ()
    later = plan(RUN, held, listing_of(held), POLICY, NOW + 100).actions
    assert Amend(held.attempts[-1].token, 109, "it may start again", hold=False) in later


def test_while_a_release_is_tried_jobs_ask_for_its_resources() -> None:
    known = ledger(trains(1, 0, release="good"), proven=("good",))
    submits = [
        action
        for action in decide(known, DesiredRun(Mode.RUN, 2, release="new"))
        if isinstance(action, Submit)
    ]
    assert {(action.release, action.request) for action in submits} == {("good", "new")}
    known = replace(known, proven=("good", "new"))
    submits = [
        action
        for action in decide(known, DesiredRun(Mode.RUN, 2, release="new"))
        if isinstance(action, Submit)
    ]
    assert {(action.release, action.request) for action in submits} == {("new", "")}


def test_once_the_budget_is_used_no_waiting_job_starts_any_more() -> None:
    known = ledger(trains(1, 0), attempt(2), used_s=1000.0)
    policy = replace(POLICY, budget_s=1000.0)
    held = [action for action in decide(known, policy=policy) if isinstance(action, Amend)]
    assert [(action.job_id, action.hold) for action in held] == [(102, True)]
    more = replace(known, attempts=(trains(1, 0), attempt(2, held=True)))
    assert Amend(more.attempts[1].token, 102, "it may start again", hold=False) in decide(more)


def test_a_slot_that_is_not_wanted_any_more_holds_no_other_back() -> None:
    refused = attempt(1, phase=Phase.ENDED, slot=3, ended_ts=NOW - 5, outcome=JobOutcome.REFUSED)
    known = ledger(refused, trains(2, 0), site=LATE)
    fewer = decide(known, DesiredRun(Mode.RUN, 2))
    assert [action for action in fewer if isinstance(action, Submit)] == [Submit("a slot is empty")]


def test_jobs_that_die_before_they_claim_a_slot_hold_everything() -> None:
    known = ledger(crashed(1, None, 10), crashed(2, None, 5))
    assert decide(known) == ()


def test_the_first_failure_is_tried_again_at_once() -> None:
    assert decide(ledger(crashed(1, None, 5))) == (Submit("a slot is empty"),) * 4


def test_the_plan_of_an_applied_plan_is_empty() -> None:
    known = ledger()
    count = len(decide(known))
    known = ledger(*(attempt(n) for n in range(count)))
    assert decide(known) == ()
