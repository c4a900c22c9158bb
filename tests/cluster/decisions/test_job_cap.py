"""The chaining of successors follows from site limits; three limits bound the jobs."""

from dataclasses import replace

import pytest

from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import (
    Attempt,
    Chaining,
    JobState,
    Ledger,
    Phase,
    QueueJob,
    SiteLimits,
    Snapshot,
)
from Daddy.cluster.orchestrator.decisions.job_cap import (
    choose_chaining,
    limits_after_refusal,
    next_submit_time,
    slow_wait_times,
    submit_allowance,
    successor_count,
)
from tests.cluster.decisions.conftest import NOW, given, queue, trains, waits

POLICY = ControllerPolicy(max_running=4, spares=4, extra=4, hourly=20)


@pytest.mark.parametrize(
    ("site", "policy", "chaining"),
    [
        (SiteLimits(), POLICY, Chaining.CHAIN),
        (SiteLimits(enforced=True), POLICY, Chaining.POOL),
        (SiteLimits(enforced=True, max_running=4), POLICY, Chaining.POOL),
        (SiteLimits(enforced=True, max_running=8), POLICY, Chaining.CHAIN),
        (SiteLimits(enforced=True, max_submitted=6), POLICY, Chaining.LATE),
        (SiteLimits(enforced=True, max_submitted=7), POLICY, Chaining.POOL),
        (SiteLimits(enforced=True, counts_waiting=True), POLICY, Chaining.LATE),
        (SiteLimits(enforced=True, keeps_marks=False), POLICY, Chaining.LATE),
        (SiteLimits(enforced=True, blocks_others=True), POLICY, Chaining.CHAIN),
        (SiteLimits(), replace(POLICY, enforced=True), Chaining.POOL),
    ],
)
def test_the_way_successors_wait_follows_from_site_and_person(
    site: SiteLimits, policy: ControllerPolicy, chaining: Chaining
) -> None:
    found, reason = choose_chaining(site, policy)
    assert found is chaining
    assert reason


def test_more_successors_wait_only_while_the_queue_is_slow() -> None:
    month = 30 * 86_400.0
    for stamps, count in (((), 4), ((NOW - 60,), 6), ((NOW - 9, NOW - 8, NOW - 7), 8)):
        inputs = given(Ledger(slow_claims=stamps), policy=POLICY)
        later = given(Ledger(slow_claims=stamps), policy=POLICY, now=NOW + month)
        assert successor_count(inputs, Chaining.POOL, 4) == count
        assert successor_count(later, Chaining.POOL, 4) == 4
        assert successor_count(inputs, Chaining.CHAIN, 4) == 4
        assert successor_count(inputs, Chaining.LATE, 4) == 0
    assert successor_count(given(Ledger(), policy=POLICY), Chaining.POOL, 2) == 2


def test_jobs_that_wait_for_a_slot_that_is_empty_show_that_the_queue_is_slow() -> None:
    def wanted(*live: Attempt, empty: int) -> int:
        inputs = replace(given(Ledger(live), policy=POLICY), fill=empty)
        return successor_count(inputs, Chaining.POOL, 4 - empty)

    stuck = tuple(waits(n, intended_ts=NOW - 61) for n in range(4))
    assert wanted(*stuck[:2], empty=4) == 2
    assert wanted(*stuck, empty=1) == 3 + 4
    assert wanted(*stuck, empty=0) == 4  # blocked by the cap alone
    assert wanted(waits(1, intended_ts=NOW - 50), empty=4) == 0
    leaving = trains(9, 0, left_ts=NOW - 5)  # its slot has been empty for five seconds
    assert wanted(*stuck, leaving, empty=1) == 3


def test_our_own_hold_never_counts_as_waiting() -> None:
    held = tuple(waits(n, intended_ts=NOW - 900, held=True) for n in range(4))
    released = tuple(waits(n, intended_ts=NOW - 900, released_ts=NOW - 50) for n in range(4))
    for stuck in (held, released):
        inputs = replace(given(Ledger(stuck), policy=POLICY), fill=4)
        assert successor_count(inputs, Chaining.POOL, 0) == 0
        assert slow_wait_times(inputs.ledger) == [] or min(slow_wait_times(inputs.ledger)) > NOW


def test_a_job_too_many_teaches_how_many_fit() -> None:
    asked = Attempt("f" * 12, 9, Phase.INTENT, NOW)
    fleet = tuple(trains(n, n) for n in range(4))
    assert limits_after_refusal(Ledger((*fleet, waits(5), waits(6), asked))) == {"max_submitted": 6}
    assert limits_after_refusal(Ledger((*fleet, asked))) == {"counts_waiting": True}
    assert limits_after_refusal(Ledger((*fleet, asked)), others=15) == {"max_submitted": 19}


def allowed(
    known: Ledger, seen: Snapshot, fill: int, policy: ControllerPolicy = POLICY
) -> tuple[int, str]:
    return submit_allowance(replace(given(known, seen, policy), fill=fill))


def test_two_places_of_the_sites_limit_are_left_to_the_person() -> None:
    known = Ledger((*(trains(n, n) for n in range(4)), waits(9)), site=SiteLimits(max_submitted=10))
    own = tuple(QueueJob(n, "", JobState.PENDING, "PENDING") for n in range(2))
    assert allowed(known, queue(known), 0)[0] == 3
    assert allowed(known, queue(known, others=own), 0)[0] == 1
    assert "site" in allowed(known, queue(known, others=own), 0)[1]
    over = tuple(replace(job, state=JobState.ENDED) for job in own)
    assert allowed(known, queue(known, others=over), 0)[0] == 1 + len(own)
    known = Ledger((trains(1, 0),), site=SiteLimits(max_submitted=4))
    assert allowed(known, queue(known), 3)[0] == 3  # slots come before courtesy


def test_our_own_count_holds_whatever_the_listing_says() -> None:
    known = Ledger(tuple(waits(n) for n in range(11)))
    assert allowed(known, Snapshot(NOW, ()), 4) == (1, "our own count of jobs")
    known = Ledger(tuple(waits(n) for n in range(12)))
    assert allowed(known, Snapshot(NOW, ()), 4) == (0, "our own count of jobs")


def test_submissions_of_a_clock_that_was_a_year_ahead_do_not_use_up_the_rate() -> None:
    known = Ledger(tuple(waits(n, intended_ts=NOW + 365 * 86_400) for n in range(20)))
    policy = replace(POLICY, extra=99)
    assert allowed(known, Snapshot(NOW, ()), 4, policy)[0] > 0
    assert next_submit_time(known, policy, NOW) is None


def test_submissions_keep_to_an_hourly_rate_and_say_when_they_may_go_on() -> None:
    stamps = [NOW - 3000 + 10 * n for n in range(20)]
    known = Ledger(tuple(waits(n, intended_ts=ts) for n, ts in enumerate(stamps)))
    policy = replace(POLICY, extra=99)
    assert allowed(known, Snapshot(NOW, ()), 4, policy) == (0, "the rate of submissions")
    assert next_submit_time(known, policy, NOW) == stamps[0] + 3600
    assert next_submit_time(known, policy, NOW + 601) is None
