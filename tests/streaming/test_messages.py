"""Values survive packing and reading, limited to the wire's ranges."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Daddy.streaming.protocol.framing import BODY_LIMIT, MessageKind, ProtocolError
from Daddy.streaming.protocol.messages import (
    MAX_ROWS,
    ROW,
    Frame,
    Peer,
    Status,
    Subscription,
    pack_ack,
    pack_rows,
    pack_stamps,
    read_ack,
    read_frame,
    read_rows,
    read_stamps,
    read_status,
    read_subscription,
    row_from_report,
    to_pins,
)
from tests.streaming.helpers import report

u32 = st.integers(0, 2**32 - 1)


@given(u32, u32, u32, u32, st.integers(0, 65535), st.binary(max_size=50))
def test_a_frame_comes_back(seq, base, step, captured, episode, data) -> None:
    frame = Frame(seq, base, step, captured, episode, data)
    assert read_frame(frame.to_body()) == frame


def test_a_row_has_32_bytes_and_comes_back() -> None:
    row = row_from_report(report(3, badges=2, story_flags=40, episode_return=-1.5, step=70_000))
    assert ROW.size == 32
    assert read_rows(pack_rows([row])) == [row]
    assert row.score == 42


def test_a_row_says_where_its_agent_is_and_older_ones_do_not() -> None:
    row = row_from_report(report(3, x=0, y=17))
    assert read_rows(pack_rows([row])) == [row]
    assert (row.x, row.y) == (0, 17)
    assert row_from_report(report(x=-7, y=10**6)).y == 0xFFFE
    older = pack_rows([row_from_report(report(3))])
    assert older[-4:] == bytes(4)
    assert (read_rows(older)[0].x, read_rows(older)[0].y) == (-1, -1)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_return_that_is_no_number_is_shown_as_nothing(value: float) -> None:
    assert row_from_report(report(episode_return=value)).episode_return == 0.0


def test_values_out_of_range_are_brought_into_it() -> None:
    row = row_from_report(report(badges=999, level=-4, step=2**40, episode_return=1e300))
    assert (row.badges, row.level, row.step) == (255, 0, 2**32 - 1)
    assert read_rows(pack_rows([row]))[0].episode_return == pytest.approx(1e9)


def test_more_rows_than_fit_are_left_out() -> None:
    body = pack_rows([row_from_report(report(agent)) for agent in range(MAX_ROWS + 10)])
    assert len(body) == BODY_LIMIT[MessageKind.TELEM]


def status(**changes: object) -> Status:
    facts = {
        "run": "slim_run",
        "workload": "pokemon_red",
        "host": "login1",
        "via": "ssh-R",
        "agents": 32,
        "steps": 10,
        "steps_per_s": 812.3,
        "best": 57,
        "delay_s": 1.25,
        "peers": (Peer("slot-0", "node1", "17", 0.5),),
        "maps": {1: "Fern Hollow"},
    }
    return Status(**{**facts, **changes})  # type: ignore[arg-type]


def test_a_status_comes_back() -> None:
    assert read_status(status().to_body()) == status()


def test_a_status_of_a_crowd_still_fits() -> None:
    peers = tuple(Peer("p" * 31, "h" * 64, "j" * 32, 1e6) for _ in range(200))
    maps = dict.fromkeys(range(500), "m" * 40)
    assert len(status(peers=peers, maps=maps).to_body()) <= BODY_LIMIT[MessageKind.STATUS]


@pytest.mark.parametrize(
    "body",
    [
        b'{"peers":7}',
        b'{"maps":[1]}',
        b'{"agents":"many"}',
        b'{"peers":[["a"]]}',
        b'{"steps":1e999}',
    ],
)
def test_a_status_with_a_wrong_field_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_status(body)


def test_wishes_are_brought_into_bounds() -> None:
    assert read_subscription(Subscription(500, 1e9).to_body()) == Subscription(16, 60.0)
    assert read_subscription(b'{"k":-1,"fps":0}') == Subscription(1, 1.0)
    with pytest.raises(ProtocolError):
        read_subscription(b'{"k":"all"}')


def test_pins_come_back_and_older_sides_are_understood() -> None:
    pinned = Subscription(2, 15.0, to_pins(["slot-0/3", "anna-s-mac/0"]))
    assert pinned.pins == (("slot-0", 3), ("anna-s-mac", 0))
    assert read_subscription(pinned.to_body()) == pinned
    assert Subscription(2, 15.0).to_body() == b'{"k":2,"fps":15.0}', (
        "what older viewers send and relays read"
    )
    assert to_pins(["?/3", "slot-0", "../x/1", "slot-0/x"]) == ()


def test_as_many_pins_travel_as_fit() -> None:
    many = Subscription(16, 60.0, tuple(("p" * 31, 65_535) for _ in range(50)))
    assert len(many.to_body()) <= BODY_LIMIT[MessageKind.SUBSCRIBE]
    assert read_subscription(many.to_body()).pins == many.pins[:5]
    small = Subscription(16, 60.0, tuple((f"slot-{n}", 12) for n in range(8)))
    assert read_subscription(small.to_body()) == small


@pytest.mark.parametrize("pins", ['[["../up",1]]', '[["slot-0"]]', "7", "[[1,2,3]]", '["ab"]'])
def test_pins_of_nobody_are_refused(pins: str) -> None:
    with pytest.raises(ProtocolError):
        read_subscription(f'{{"k":2,"pins":{pins}}}'.encode())


def test_small_bodies_have_exact_sizes() -> None:
    assert read_ack(pack_ack(7)) == 7
    assert read_stamps(pack_stamps(1, 2)) == (1, 2)
    for reader in (read_ack, read_stamps, read_frame):
        with pytest.raises(ProtocolError):
            reader(b"123")
    with pytest.raises(ProtocolError):
        read_rows(b"123")
