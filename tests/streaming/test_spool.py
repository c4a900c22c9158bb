"""Several relays of one run: a wish list each, and jobs want what any of them wants."""

from __future__ import annotations

from pathlib import Path

from Daddy.streaming.login.spool import (
    SEATS,
    WATCHED_FOR_S,
    Seat,
    Watchers,
    Wishes,
    prepare,
    read_wishes,
    write_wishes,
)

ONE, TWO = frozenset({1}), frozenset({2})


def test_jobs_are_asked_for_the_union_at_the_highest_rate(tmp_path: Path) -> None:
    Seat(tmp_path, 1).publish(5.0, {"slot-0": ONE}, 0.0)
    Seat(tmp_path, 1, "anna").publish(15.0, {"slot-0": TWO, "slot-1": ONE}, 0.0)
    wishes = Watchers(tmp_path).wishes(0.0)
    assert wishes.wanted == {"slot-0": ONE | TWO, "slot-1": ONE}
    assert wishes.fps == 15.0


def test_a_list_that_stands_still_wears_off_and_the_others_stay(tmp_path: Path) -> None:
    house, anna, jobs = Seat(tmp_path, 1), Seat(tmp_path, 1, "anna"), Watchers(tmp_path)
    house.publish(5.0, {"slot-0": ONE}, 0.0)
    anna.publish(5.0, {"slot-0": TWO}, 0.0)
    jobs.wishes(0.0)
    anna.publish(5.0, {"slot-0": TWO}, 10.0)
    assert jobs.wishes(10.0).wanted == {"slot-0": ONE | TWO}
    assert jobs.wishes(WATCHED_FOR_S + 1.0).wanted == {"slot-0": TWO}


def test_who_leaves_makes_room_and_a_full_house_waits(tmp_path: Path) -> None:
    guests = [Seat(tmp_path, 1, f"guest-{number}") for number in range(SEATS)]
    wanted = {"slot-0": ONE}
    assert [one.publish(5.0, wanted, 0.0) for one in guests] == [True] * (SEATS - 1) + [False]
    guests[0].leave()
    assert guests[-1].publish(5.0, wanted, 1.0)
    assert read_wishes(tmp_path, 1).holder == f"guest-{SEATS - 1}"
    assert read_wishes(tmp_path, 0) is None, "the controller's list is never taken"


def test_the_place_of_one_that_was_killed_is_taken_once_it_has_stood_still(tmp_path: Path) -> None:
    for number in range(1, SEATS):
        write_wishes(tmp_path, Wishes(7, 5.0, {"slot-0": ONE}, f"killed-{number}"), number)
    late = Seat(tmp_path, 1, "late")
    assert not late.publish(5.0, {"slot-0": TWO}, 0.0)
    assert not late.publish(5.0, {"slot-0": TWO}, WATCHED_FOR_S - 1.0)
    assert late.publish(5.0, {"slot-0": TWO}, WATCHED_FOR_S + 1.0)


def test_two_that_took_one_place_at_once_find_out_and_part(tmp_path: Path) -> None:
    anna, bert = Seat(tmp_path, 1, "anna"), Seat(tmp_path, 1, "bert")
    anna.publish(5.0, {"slot-0": ONE}, 0.0)
    write_wishes(tmp_path, Wishes(1, 5.0, {"slot-0": TWO}, "bert"), 1)
    bert._number = 1
    anna.publish(5.0, {"slot-0": ONE}, 3.0)
    bert.publish(5.0, {"slot-0": TWO}, 3.0)
    assert {read_wishes(tmp_path, number).holder for number in (1, 2)} == {"anna", "bert"}
    assert Watchers(tmp_path).wishes(3.0).wanted == {"slot-0": ONE | TWO}


def test_a_list_bounds_what_it_may_ask_of_a_job(tmp_path: Path) -> None:
    Seat(tmp_path, 1).publish(5.0, {"slot-0": frozenset(range(500))}, 0.0)
    assert len(Watchers(tmp_path).wishes(0.0).wanted["slot-0"]) == 16


def test_all_lists_are_there_before_anybody_comes(tmp_path: Path) -> None:
    prepare(tmp_path)
    assert [read_wishes(tmp_path, number).holder for number in range(1, SEATS)] == [""] * 3
    Seat(tmp_path, 1, "anna").publish(5.0, {"slot-0": ONE}, 0.0)
    prepare(tmp_path)
    assert read_wishes(tmp_path, 1).holder == "anna"
