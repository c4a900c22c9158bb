"""Bad nodes are excluded for a day, and never too many of them."""

from dataclasses import replace

import pytest

from Daddy.cluster.orchestrator.action_types import Amend
from Daddy.cluster.orchestrator.controller_types import JobOutcome, Ledger
from Daddy.cluster.orchestrator.decisions.node_exclusion import exclude_nodes, excluded_nodes
from tests.cluster.decisions.conftest import NOW, ended, trains, waits


def known(*attempts) -> Ledger:
    return Ledger(attempts, proven=("good",))


def bad(number: int, node: str, ago: float = 60, outcome: JobOutcome = JobOutcome.CRASHED):
    return ended(number, outcome, ago, node=node, release="good")


def test_two_strikes_within_a_day_and_the_node_is_left_out_until_they_are_old() -> None:
    first, second = bad(1, "n1", 7200), bad(2, "n1", 60)
    assert excluded_nodes(known(first), NOW) == ()
    assert excluded_nodes(known(first, second), NOW) == ("n1",)
    assert excluded_nodes(known(first, second), NOW + 80_000) == ()


def test_a_node_that_fails_under_a_healthy_learner_counts_too() -> None:
    falls = [bad(n, "n1", outcome=JobOutcome.NODE_FAILED) for n in (1, 2)]
    assert excluded_nodes(known(*falls), NOW) == ("n1",)


def test_a_job_that_worked_there_to_its_end_forgives_what_was_before() -> None:
    """A node that reboots twice a day and trains in between is better than an empty slot."""
    falls = [bad(n, "n1", ago=100 * n, outcome=JobOutcome.NODE_FAILED) for n in (1, 3)]

    def between(ago: float, **facts: object):
        return ended(2, JobOutcome.DRAINED, ago, node="n1", release="good", **facts)

    falls.append(trains(9, 0, node="n2"))
    assert excluded_nodes(known(*falls, between(200, progressed_ts=1.0)), NOW) == ()
    assert excluded_nodes(known(*falls, between(200)), NOW) == ("n1",)
    assert excluded_nodes(known(*falls, between(400, progressed_ts=1.0)), NOW) == ("n1",)


@pytest.mark.parametrize("cleared", ["start_seen_ts", "room_ts"])
def test_a_start_and_room_on_a_full_disk_forgive_nodes_that_slurm_does_not_call_failed(
    cleared: str,
) -> None:
    """The setup failed twice on each node and is mended: no node is excluded for a day."""
    failed = [bad(2 * k + n, f"n{k}") for k in (1, 2) for n in (1, 2)]
    broken = [bad(10 + n, "n3", outcome=JobOutcome.NODE_FAILED) for n in (1, 2)]
    before = known(*failed, *broken)
    assert excluded_nodes(before, NOW) == ("n1", "n2", "n3")
    assert excluded_nodes(replace(before, **{cleared: NOW - 30}), NOW) == ("n3",)
    assert excluded_nodes(replace(before, **{cleared: NOW - 90}), NOW) == ("n1", "n2", "n3")


def test_a_release_that_never_worked_anywhere_says_nothing_about_nodes() -> None:
    dead = [ended(n, JobOutcome.CRASHED, node="n1", release="new") for n in (1, 2, 3)]
    assert excluded_nodes(known(*dead), NOW) == ()


def test_at_most_a_few_nodes_are_left_out_the_newest_failures_first() -> None:
    dead = [bad(10 * n + k, f"n{n}", ago=100 * n) for n in range(1, 6) for k in (1, 2)]
    assert excluded_nodes(known(*dead), NOW) == ("n1", "n2", "n3")


def test_the_last_node_on_which_anything_ever_worked_is_never_left_out() -> None:
    fine = trains(9, 0, node="n1")
    falls = [bad(n, "n1", ago=100 * n) for n in (1, 2)]
    assert excluded_nodes(known(fine, *falls), NOW) == ()
    elsewhere = trains(10, 1, node="n2")
    assert excluded_nodes(known(fine, elsewhere, *falls), NOW) == ("n1",)
    more = [bad(20 + n, "n2", ago=10 * n) for n in (1, 2)]
    assert excluded_nodes(known(fine, elsewhere, *falls, *more), NOW) == ("n2",)


def test_waiting_jobs_are_told_in_their_places_and_only_once() -> None:
    ledger = known(waits(1), waits(2, excluded=("n1",)), trains(3, 0), waits(4, job_id=None))
    (change,) = exclude_nodes(ledger.live, ("n1",))
    assert isinstance(change, Amend)
    assert (change.job_id, change.exclude, change.hold) == (101, ("n1",), None)
    (back,) = exclude_nodes(ledger.live, ())
    assert (back.job_id, back.exclude) == (102, ())
