"""Several relays of one run have a watch request each; jobs serve the union of all."""

from pathlib import Path

from Daddy.streaming.login.stream_folder import (
    MAX_RELAYS,
    WATCHED_FOR_S,
    WatchRequest,
    WatchRequests,
    WatchRequestSlot,
    create_request_files,
    read_watch_request,
    write_watch_request,
)

ONE, TWO = frozenset({1}), frozenset({2})


def test_jobs_are_asked_for_the_union_at_the_highest_rate(tmp_path: Path) -> None:
    WatchRequestSlot(tmp_path, 1).publish(5.0, {"slot-0": ONE}, 0.0)
    WatchRequestSlot(tmp_path, 1, "anna").publish(15.0, {"slot-0": TWO, "slot-1": ONE}, 0.0)
    wishes = WatchRequests(tmp_path).read_union(0.0)
    assert wishes.wanted == {"slot-0": ONE | TWO, "slot-1": ONE}
    assert wishes.fps == 15.0


def test_a_list_that_stands_still_wears_off_and_the_others_stay(tmp_path: Path) -> None:
    house, anna, jobs = (
        WatchRequestSlot(tmp_path, 1),
        WatchRequestSlot(tmp_path, 1, "anna"),
        WatchRequests(tmp_path),
    )
    house.publish(5.0, {"slot-0": ONE}, 0.0)
    anna.publish(5.0, {"slot-0": TWO}, 0.0)
    jobs.read_union(0.0)
    anna.publish(5.0, {"slot-0": TWO}, 10.0)
    assert jobs.read_union(10.0).wanted == {"slot-0": ONE | TWO}
    assert jobs.read_union(WATCHED_FOR_S + 1.0).wanted == {"slot-0": TWO}


def test_who_leaves_makes_room_and_a_full_house_waits(tmp_path: Path) -> None:
    guests = [WatchRequestSlot(tmp_path, 1, f"guest-{number}") for number in range(MAX_RELAYS)]
    wanted = {"slot-0": ONE}
    assert [slot.publish(5.0, wanted, 0.0) for slot in guests] == [True] * (MAX_RELAYS - 1) + [
        False
    ]
    guests[0].withdraw()
    assert guests[-1].publish(5.0, wanted, 1.0)
    assert read_watch_request(tmp_path, 1).holder == f"guest-{MAX_RELAYS - 1}"
    assert read_watch_request(tmp_path, 0) is None, "the controller's list is never taken"


def test_the_place_of_one_that_was_killed_is_taken_once_it_has_stood_still(tmp_path: Path) -> None:
    for number in range(1, MAX_RELAYS):
        write_watch_request(
            tmp_path, WatchRequest(7, 5.0, {"slot-0": ONE}, f"killed-{number}"), number
        )
    late = WatchRequestSlot(tmp_path, 1, "late")
    assert not late.publish(5.0, {"slot-0": TWO}, 0.0)
    assert not late.publish(5.0, {"slot-0": TWO}, WATCHED_FOR_S - 1.0)
    assert late.publish(5.0, {"slot-0": TWO}, WATCHED_FOR_S + 1.0)


def test_two_that_took_one_place_at_once_find_out_and_part(tmp_path: Path) -> None:
    anna, bert = WatchRequestSlot(tmp_path, 1, "anna"), WatchRequestSlot(tmp_path, 1, "bert")
    anna.publish(5.0, {"slot-0": ONE}, 0.0)
    write_watch_request(tmp_path, WatchRequest(1, 5.0, {"slot-0": TWO}, "bert"), 1)
    bert._number = 1
    anna.publish(5.0, {"slot-0": ONE}, 3.0)
    bert.publish(5.0, {"slot-0": TWO}, 3.0)
    assert {read_watch_request(tmp_path, number).holder for number in (1, 2)} == {"anna", "bert"}
    assert WatchRequests(tmp_path).read_union(3.0).wanted == {"slot-0": ONE | TWO}


def test_a_list_bounds_what_it_may_ask_of_a_job(tmp_path: Path) -> None:
    WatchRequestSlot(tmp_path, 1).publish(5.0, {"slot-0": frozenset(range(500))}, 0.0)
    assert len(WatchRequests(tmp_path).read_union(0.0).wanted["slot-0"]) == 16


def test_all_lists_are_there_before_anybody_comes(tmp_path: Path) -> None:
    create_request_files(tmp_path)
    assert [read_watch_request(tmp_path, number).holder for number in range(1, MAX_RELAYS)] == [
        ""
    ] * 3
    WatchRequestSlot(tmp_path, 1, "anna").publish(5.0, {"slot-0": ONE}, 0.0)
    create_request_files(tmp_path)
    assert read_watch_request(tmp_path, 1).holder == "anna"
