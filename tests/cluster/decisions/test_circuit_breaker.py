"""Failures delay the next try; only checkpoint progress resets the count."""

import pytest

from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import Attempt, JobOutcome, Ledger, Phase
from Daddy.cluster.orchestrator.decisions.circuit_breaker import (
    REFUSED,
    REFUSED_FOR_GOOD,
    find_holds,
    may_lack_room,
)

POLICY = ControllerPolicy(delays_s=(0, 60, 300, 900), breaker_failures=99)
NOW = 1_000_000.0


def ended(number: int, ts: float, outcome: JobOutcome = JobOutcome.CRASHED, **facts) -> Attempt:
    basics = {"token": f"{number:012x}", "number": number, "phase": Phase.ENDED, "slot": 0}
    return Attempt(**{**basics, "intended_ts": ts - 9, "ended_ts": ts, "outcome": outcome, **facts})


def hold_after(*attempts: Attempt, started: float = 0.0):
    holds, _ = find_holds(Ledger(attempts=attempts, start_seen_ts=started), POLICY, NOW)
    return holds[0] if holds else None


def test_the_wait_grows_with_every_failure_in_a_row_and_then_stays() -> None:
    for count, delay in ((2, 60), (3, 300), (4, 900), (6, 900)):
        last = NOW - 1
        hold = hold_after(*(ended(n, last - 10 * (count - n)) for n in range(1, count + 1)))
        assert hold is not None
        assert 0.7 * delay <= hold.until - last <= 1.3 * delay
        assert hold.failures == count


@pytest.mark.parametrize(
    "outcome",
    [JobOutcome.DRAINED, JobOutcome.CANCELLED, JobOutcome.LOST],
    ids=lambda outcome: outcome.value,
)
def test_wall_time_cancels_and_lost_nodes_are_no_failures(outcome: JobOutcome) -> None:
    assert hold_after(*(ended(n, NOW - n, outcome) for n in range(1, 9))) is None


def test_the_end_of_a_full_disk_ends_holds_but_not_those_that_a_retry_cannot_mend() -> None:
    full = [ended(n, NOW - 9 + n, reason="exit code 9: No space left") for n in range(1, 5)]
    refused = ended(5, NOW - 4, JobOutcome.REFUSED, slot=1)
    holds, _ = find_holds(Ledger((*full, refused)), POLICY, NOW)
    assert [hold.slot for hold in holds] == [0, 1]
    holds, tries = find_holds(Ledger((*full, refused), room_ts=NOW - 3), POLICY, NOW)
    assert [hold.slot for hold in holds] == [1]
    assert tries == 98
    assert may_lack_room(full[0], 0.0)
    assert not may_lack_room(full[0], NOW)
    assert not may_lack_room(ended(1, NOW, reason="exit code 93"), 0.0)


def test_a_checkpoint_starts_the_count_again() -> None:
    progressed = ended(3, NOW - 20, progressed_ts=NOW - 30)
    failures = [ended(1, NOW - 60), ended(2, NOW - 40), ended(4, NOW - 10), ended(5, NOW - 5)]
    hold = hold_after(*failures, progressed)
    assert hold is not None
    assert hold.failures == 2


def test_an_attempt_that_made_progress_before_it_crashed_does_not_count() -> None:
    crashes = [ended(n, NOW - n, progressed_ts=NOW - n - 1) for n in range(1, 6)]
    assert hold_after(*crashes) is None


def test_an_attempt_that_asks_not_to_be_restarted_holds_until_start_is_said_again() -> None:
    refused = ended(1, NOW - 86_400, JobOutcome.REFUSED, reason="the checkpoint is damaged")
    hold = hold_after(refused)
    assert hold is not None
    assert hold.until > NOW + 365 * 86_400
    assert "the checkpoint is damaged" in hold.reason
    assert hold_after(refused, started=NOW - 60) is None


@pytest.mark.parametrize(("why", "for_ever"), [(REFUSED, False), (REFUSED_FOR_GOOD, True)])
def test_what_the_scheduler_refuses_holds_every_slot(why: str, for_ever: bool) -> None:
    facts = {"phase": Phase.REJECTED, "slot": None, "outcome": None, "reason": f"{why}: no"}
    hold = hold_after(*(ended(n, NOW - 3 + n, **facts) for n in (1, 2)))
    assert hold is not None
    assert hold.slot is None
    assert (hold.until > NOW + 86_400) is for_ever


def test_an_intent_that_never_came_to_the_queue_is_no_failure() -> None:
    facts = {"phase": Phase.REJECTED, "slot": None, "outcome": None}
    gone = [ended(n, NOW - 1, reason="it never came to the queue", **facts) for n in range(5)]
    assert hold_after(*gone) is None


def test_a_job_that_claimed_a_slot_proves_that_jobs_can_start() -> None:
    early = [ended(n, NOW - 50 + n, slot=None) for n in (1, 2)]
    fine = ended(9, NOW - 1, JobOutcome.DRAINED, slot=2, started_ts=NOW - 20)
    assert hold_after(*early, fine) is None


def test_slots_that_trained_well_and_hand_over_at_once_do_not_open_the_breaker() -> None:
    """No job trains between two jobs of the healthy slots, while other slots keep failing."""
    policy = ControllerPolicy(breaker_failures=5)
    failing = [ended(n, NOW - 100 + n, slot=1) for n in range(1, 7)]
    trained = {"slot": 0, "started_ts": NOW - 900, "progressed_ts": NOW - 800}
    for outcome, left, opens in (
        (JobOutcome.DRAINED, NOW - 1, False),
        (JobOutcome.DRAINED, None, True),
        (JobOutcome.CRASHED, NOW - 1, True),
        (JobOutcome.HUNG, NOW - 1, True),
    ):
        attempts = (*failing, ended(9, NOW - 1, outcome, left_ts=left, **trained))
        holds, _ = find_holds(Ledger(attempts=attempts), policy, NOW)
        assert any(hold.slot == 1 for hold in holds)
        assert any(hold.open for hold in holds) is opens, (
            "a job that leaves in good order wrote a checkpoint"
        )


def test_a_late_job_that_finds_every_slot_filled_is_surplus_and_no_failure() -> None:
    """Five jobs of unanswered submissions must not delay the next hand-over."""
    fleet = [_trains(n) for n in range(4)]
    late = [ended(10 + n, NOW - 100, JobOutcome.NOT_NEEDED, slot=None) for n in range(5)]
    assert hold_after(*fleet, *late) is None
    assert hold_after(*fleet[:3], *late) is not None, "a slot was free, and no job could claim it"


def _trains(slot: int) -> Attempt:
    since = {"claimed_ts": NOW - 900, "progressed_ts": NOW - 800}
    return Attempt(
        f"{slot:012x}", slot + 1, Phase.RUNNING, NOW - 950, job_id=slot, slot=slot, **since
    )
