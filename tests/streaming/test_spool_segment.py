"""A spool file is read completely or not at all."""

from hypothesis import given, settings
from hypothesis import strategies as st

from Daddy.streaming.protocol.framing import BODY_LIMIT, MessageKind
from Daddy.streaming.protocol.messages import row_from_report
from Daddy.streaming.protocol.spool_segment import (
    SEGMENT_LIMIT,
    CapturedPicture,
    WriterIdentity,
    pack_head,
    pack_reports,
    read_segment,
    unpack_file,
)
from tests.streaming.helpers import pack_segment, picture, report

WRITER = WriterIdentity("slot-1", "node7", "4711", "0123abcd")


def pictures(count: int, agents: int = 2) -> list[CapturedPicture]:
    return [CapturedPicture(i % agents, 10 * i, 1, 1000 + 66 * i, picture(i)) for i in range(count)]


def test_a_segment_comes_back() -> None:
    reports, taken = [report(0), report(1, map_id=2, map_name="Lake Path")], pictures(6)
    segment = read_segment(pack_segment(9, WRITER, 5000, reports, taken))
    assert segment is not None
    assert (segment.sequence, segment.peer, segment.host, segment.job) == (
        9,
        "slot-1",
        "node7",
        "4711",
    )
    assert (segment.incarnation, segment.sent_ms) == ("0123abcd", 5000)
    assert segment.rows == tuple(row_from_report(each) for each in reports)
    assert segment.maps == {1: "Fern Hollow", 2: "Lake Path"}
    assert segment.pictures == tuple(taken)


@settings(max_examples=100)
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_single_changed_byte_voids_the_segment(where: int, flip: int) -> None:
    data = bytearray(pack_segment(9, WRITER, 5000, [report()], pictures(2)))
    where %= len(data)
    data[where] ^= flip
    reserved = where in (6, 7)
    assert (read_segment(bytes(data)) is not None) == reserved


@settings(max_examples=50)
@given(st.integers(0, 10**6))
def test_a_cut_segment_says_nothing(length: int) -> None:
    data = pack_segment(9, WRITER, 5000, [report()], pictures(2))
    assert read_segment(data[: length % len(data)]) is None


def test_what_an_older_longer_segment_left_behind_is_passed_over() -> None:
    long = pack_segment(1, WRITER, 0, [report()], pictures(12))
    short = pack_segment(2, WRITER, 0, [report()], [])
    assert unpack_file(short + long[len(short) :])[0] == 2


def test_hundreds_of_agents_and_pictures_stay_within_the_bound() -> None:
    reports = [report(n, map_id=n, map_name="a name of some length") for n in range(800)]
    data = pack_segment(1, WRITER, 0, reports, pictures(400, agents=16))
    assert len(data) <= SEGMENT_LIMIT
    segment = read_segment(data)
    assert segment is not None
    assert len(segment.rows) == 512
    assert len(segment.pictures) > 20


def test_of_many_maps_as_many_names_as_a_greeting_holds_are_told() -> None:
    reports = [report(n, map_id=n, map_name="the \u00e9lder's house") for n in range(200)]
    told = pack_reports(WRITER, reports)
    hello = pack_head(told, 2**63)[0]
    assert BODY_LIMIT[MessageKind.HELLO] - 40 < len(hello.body) <= BODY_LIMIT[MessageKind.HELLO]
    few = pack_reports(WRITER, [report(agent, map_id=agent % 2) for agent in range(200)])
    assert set(few.writer["maps"]) == {"0", "1"}


@given(st.binary(max_size=400))
def test_garbage_is_nothing(data: bytes) -> None:
    assert read_segment(data) is None
