"""Memory of learner and streamer: the newest survives, no side waits, torn copies are lost."""

import os
from collections.abc import Iterator

import pytest

from Daddy.streaming.learner import shared_ring
from Daddy.streaming.learner.shared_ring import LearnerEnd, StreamerEnd, nameless_file
from Daddy.streaming.protocol.spool_segment import CapturedPicture
from tests.streaming.helpers import picture, report

Ends = tuple[LearnerEnd, StreamerEnd]


@pytest.fixture
def ends() -> Iterator[Ends]:
    file = nameless_file()
    learner, streamer = LearnerEnd(file), StreamerEnd(file)
    os.close(file)
    yield learner, streamer
    learner.close()
    streamer.close()


def record(step: int) -> CapturedPicture:
    return CapturedPicture(3, step, 2, 1000 + step, picture(step % 40))


def test_what_is_put_comes_out_once_in_order(ends: Ends) -> None:
    learner, streamer = ends
    put = [record(step) for step in range(5)]
    for captured in put:
        learner.write_picture(captured)
    assert streamer.read_pictures() == put
    assert streamer.read_pictures() == []
    assert streamer.lost == 0


def test_a_streamer_that_stood_still_goes_on_with_the_newest_and_counts_the_rest(
    ends: Ends,
) -> None:
    learner, streamer = ends
    for step in range(3 * shared_ring.RECORDS):
        learner.write_picture(record(step))
    steps = [record.step for record in streamer.read_pictures()]
    assert steps[-1] == 3 * shared_ring.RECORDS - 1
    assert steps == sorted(set(steps))
    assert len(steps) >= shared_ring.RECORDS // 2 - 1
    assert streamer.lost == 3 * shared_ring.RECORDS - len(steps)


def test_a_record_that_is_being_written_is_not_read(ends: Ends) -> None:
    learner, streamer = ends
    learner.write_picture(record(1))
    at = shared_ring._RING + shared_ring._RECORD_BYTES
    whole = learner._map[at : at + shared_ring._HEAD.size]
    shared_ring._HEAD.pack_into(learner._map, at, 1, *shared_ring._HEAD.unpack(whole)[1:])
    assert streamer.read_pictures() == []
    learner._map[at : at + shared_ring._HEAD.size] = whole
    assert [record.step for record in streamer.read_pictures()] == [1]


def test_the_newest_reports_and_who_is_wanted(ends: Ends) -> None:
    learner, streamer = ends
    assert streamer.read_reports() is None
    learner.write_reports([report(0, step=1)])
    learner.write_reports([report(0, step=2), report(1, map_name="Fern Höhe")])
    assert streamer.read_reports() == [report(0, step=2), report(1, map_name="Fern Höhe")]
    assert streamer.read_reports() is None
    streamer.set_wanted({1, 3, 10_000, -10_000})
    assert learner.wanted_agents() == {1, 3}
    assert [agent for agent in range(5) if learner.is_wanted(agent)] == [1, 3]


def test_what_a_dead_streamer_wanted_is_taken_back(ends: Ends) -> None:
    learner, streamer = ends
    streamer.set_wanted({1})
    learner.clear_wanted()
    assert learner.wanted_agents() == frozenset()


def test_without_nameless_memory_there_is_a_file_that_cannot_run_out_of_disk(monkeypatch) -> None:
    def refused(*_: object) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "memfd_create", refused, raising=False)
    file = nameless_file()
    about = os.fstat(file)
    os.close(file)
    assert (about.st_size, about.st_nlink) == (shared_ring.SIZE, 0)
    assert about.st_blocks * 512 >= shared_ring.SIZE, "no holes"


def test_a_successor_of_the_streamer_begins_with_what_is_new() -> None:
    file = nameless_file()
    learner = LearnerEnd(file)
    for step in range(300):
        learner.write_picture(record(step))
    successor = StreamerEnd(file)
    os.close(file)
    assert successor.read_pictures() == []
    learner.write_picture(record(300))
    assert [record.step for record in successor.read_pictures()] == [300]
    learner.close()
    successor.close()
