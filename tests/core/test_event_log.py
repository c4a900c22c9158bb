import pytest

from Daddy.core.clock import SystemClock
from Daddy.core.event_log import LINE_LIMIT, EventTail, EventWriter, read_events


def writer(folder, ident="slot-0"):
    return EventWriter(folder, "run", "cartpole", "learner", ident, SystemClock())


def test_every_line_carries_the_whole_envelope(tmp_path):
    writer(tmp_path).write("metric", 7, {"entropy": 1.5})
    (event,) = read_events(tmp_path)
    assert set(event) == {"v", "ts", "run", "workload", "source", "event", "step", "data"}
    assert event["source"] == {"kind": "learner", "id": "slot-0", "index": 0}
    assert (event["step"], event["data"]) == (7, {"entropy": 1.5})


def test_each_writer_has_a_file_of_its_own(tmp_path):
    for _ in range(3):
        writer(tmp_path).write("log", 0, {})
    assert len(list(tmp_path.iterdir())) == 3


def test_a_torn_last_line_is_passed_over(tmp_path):
    log = writer(tmp_path)
    log.write("log", 1, {})
    with log.path.open("ab") as stream:
        stream.write(b'{"v": 1, "ts": 5')
    assert [event["step"] for event in read_events(tmp_path)] == [1]


def test_unknown_kinds_and_oversized_lines_are_refused(tmp_path):
    log = writer(tmp_path)
    with pytest.raises(ValueError, match="gossip"):
        log.write("gossip", 0, {})
    with pytest.raises(ValueError, match="over the limit"):
        log.write("log", 0, {"text": "x" * LINE_LIMIT})
    with pytest.raises(ValueError, match="JSON compliant"):
        log.write("metric", 0, {"loss": float("nan")})


def test_a_tail_sees_each_event_once_and_only_when_its_line_is_whole(tmp_path):
    log, tail = writer(tmp_path), EventTail(tmp_path)
    log.write("log", 1, {})
    assert [event["step"] for event in tail.read_new()] == [1]
    assert tail.read_new() == []
    with log.path.open("ab") as stream:
        stream.write(b'{"v":1,"ts":1,"step":9')
    assert tail.read_new() == []
    with log.path.open("ab") as stream:
        stream.write(b"}\n")
    assert [event["step"] for event in tail.read_new()] == [9]
