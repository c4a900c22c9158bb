"""One slot tries a new release, which is given up when it fails there."""

from Daddy.cluster.orchestrator.controller_types import DesiredRun, JobOutcome, Ledger, Mode
from Daddy.cluster.orchestrator.decisions.release_rollout import choose_releases
from tests.cluster.decisions.conftest import ended, trains

NEW = DesiredRun(Mode.RUN, 4, release="new")


def fleet(*attempts, **facts) -> Ledger:
    return Ledger(attempts, **{"proven": ("good",), **facts})


def old(number: int, slot: int, **facts):
    return trains(number, slot, release="good", **facts)


def test_the_first_release_of_a_run_goes_everywhere() -> None:
    chosen = choose_releases(NEW, Ledger())
    assert [chosen.release_for(slot) for slot in range(4)] == ["new"] * 4


def test_a_changed_release_is_tried_where_a_slot_is_empty_first() -> None:
    known = fleet(old(1, 0), old(2, 1), old(3, 3))
    chosen = choose_releases(NEW, known)
    assert [chosen.release_for(slot) for slot in range(4)] == ["good", "good", "new", "good"]
    assert "tried in slot 2" in chosen.reason


def test_in_a_full_fleet_the_slot_that_is_handed_over_next_tries_it() -> None:
    known = fleet(*(old(n, n, started_ts=1000.0 - n) for n in range(4)))
    assert choose_releases(NEW, known).slot == 3


def test_the_trial_stays_where_it_began() -> None:
    trial = trains(9, 1, release="new", progressed_ts=None)
    known = fleet(old(1, 0), trial, old(3, 3))
    assert choose_releases(NEW, known).slot == 1


def test_once_it_made_progress_everybody_takes_it() -> None:
    known = fleet(old(1, 0), proven=("good", "new"))
    assert [choose_releases(NEW, known).release_for(slot) for slot in range(4)] == ["new"] * 4


def test_a_release_that_dies_twice_is_given_up_for_the_last_good_one() -> None:
    dead = [ended(n, JobOutcome.CRASHED, release="new", reason="exit code 1") for n in (1, 2)]
    assert choose_releases(NEW, fleet(dead[0])).trial == "new"
    chosen = choose_releases(NEW, fleet(*dead))
    assert (chosen.release_for(0), chosen.trial, chosen.given_up) == ("good", None, {"new"})
    assert "given up for good: exit code 1" in chosen.reason


def test_one_that_says_it_cannot_run_is_given_up_at_once_and_start_forgives_it() -> None:
    refused = ended(1, JobOutcome.REFUSED, release="new")
    assert choose_releases(NEW, fleet(refused)).given_up == {"new"}
    forgiven = fleet(refused, start_seen_ts=(refused.ended_ts or 0) + 1)
    assert choose_releases(NEW, forgiven).trial == "new"


def test_wall_times_say_nothing_against_a_release() -> None:
    drained = [ended(n, JobOutcome.DRAINED, release="new") for n in range(5)]
    assert choose_releases(NEW, fleet(*drained)).trial == "new"
