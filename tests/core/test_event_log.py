import logging
from itertools import repeat

import pytest

from Daddy.core.clock import SystemClock
from Daddy.core.event_log import (
    LINE_LIMIT,
    SOURCE_EVENTS,
    SOURCE_LINE,
    EventSource,
    EventTail,
    EventWriter,
    read_events,
)


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


def test_a_host_writes_about_many_sandboxes_into_its_own_file(tmp_path):
    log = writer(tmp_path, "host")
    log.write("state", 0, {"state": "started"})
    for index in range(3):
        source = EventSource("sandbox", f"sandbox-{index}", index)
        assert log.write_about(source, "progress", index, {"reward": 9.5})
    assert [path.name.rpartition("-")[0] for path in tmp_path.iterdir()] == ["learner-host"]
    own, *others = read_events(tmp_path)
    assert own["source"] == {"kind": "learner", "id": "host", "index": 0}
    assert [event["source"] for event in others] == [
        {"kind": "sandbox", "id": f"sandbox-{index}", "index": index} for index in range(3)
    ]
    assert [set(event) for event in others] == [set(own)] * 3
    assert EventTail(tmp_path).read_new() == [own, *others]


@pytest.mark.parametrize("name", ["", "../x", "a b", "A", "x" * 65, "\x1b[2J", "-x", "x\n"])
def test_a_source_with_other_characters_than_a_file_name_is_refused(name):
    for kind, ident in (("sandbox", name), (name, "sandbox-1")):
        with pytest.raises(ValueError, match="cannot name a source"):
            EventSource(kind, ident)


def nested(depth):
    return {} if depth == 0 else {"x": nested(depth - 1)}


@pytest.mark.parametrize(
    "data",
    [
        {"text": "x" * SOURCE_LINE},
        {"text": "\x1b" * (SOURCE_LINE // 6)},
        {"reward": float("nan")},
        {"reward": float("-inf")},
        {"episode": 10**5000},
        nested(900),
    ],
    ids=["long", "long once escaped", "nan", "infinite", "huge", "deep"],
)
def test_an_event_over_a_bound_is_dropped_and_counted(tmp_path, data):
    log, source = writer(tmp_path, "host"), EventSource("sandbox", "sandbox-7", 7)
    assert [log.write_about(source, "progress", 0, data) for _ in range(2)] == [False, False]
    assert log.write_about(source, "progress", 0, {})
    assert log.dropped == {source: 2}
    assert len(list(read_events(tmp_path))) == 1


def test_a_sandbox_that_floods_silences_neither_another_nor_its_own_end(tmp_path):
    log = writer(tmp_path, "host")
    loud, quiet = EventSource("sandbox", "loud"), EventSource("sandbox", "quiet", 1)
    kinds = ["progress", "metric", "log"] * (SOURCE_EVENTS // 3 + 1)
    assert sum(map(log.write_about, repeat(loud), kinds, repeat(0), repeat({}))) == SOURCE_EVENTS
    assert log.dropped == {loud: len(kinds) - SOURCE_EVENTS}
    for event in ("state", "result", "error"):
        assert log.write_about(loud, event, 0, {})
    assert log.write_about(quiet, "progress", 0, {})
    with pytest.raises(ValueError, match="gossip"):
        log.write_about(quiet, "gossip", 0, {})


def test_the_words_of_a_sandbox_stay_out_of_the_log_of_its_host(tmp_path, caplog):
    with caplog.at_level(logging.DEBUG):
        said = {"text": "\x1b]0;title\x07"}
        writer(tmp_path, "host").write_about(EventSource("sandbox", "s"), "error", 0, said)
    assert caplog.records == []
    (path,) = tmp_path.iterdir()
    assert b"\x1b" not in path.read_bytes()
