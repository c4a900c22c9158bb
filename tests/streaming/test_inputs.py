"""Pieces of play on their way: repeated, in order, within the window, and no two chains mixed."""

from __future__ import annotations

import pytest

from Daddy.core import booth
from Daddy.core.booth import Shown, Verdict
from Daddy.core.piece import Piece
from Daddy.core.vocabulary import SCREEN_BYTES
from Daddy.streaming.home.replays import Replays, ago
from Daddy.streaming.wire.inputs import CHAIN_BYTES, Inputs, Want, read_offer, read_play, read_want
from Daddy.streaming.wire.messages import Wish, read_wish
from Daddy.streaming.wire.outbox import MOST_PIECES, TIMES, Handed, Outbox
from Daddy.streaming.wire.protocol import Kind, Message, ProtocolError
from Daddy.streaming.wire.segment import Writer, read_segment
from tests.streaming.helpers import pack_segment, report


def piece(chain: int, index: int, data: bytes = b"data") -> Handed:
    return Handed(0, 1000 + index, Piece(chain, index, data).pack())


def places(messages: list[Message]) -> list[tuple[int, int]]:
    plays = [read_play(one.body) for one in messages if one.kind == Kind.PLAY]
    return [(one.chain, one.index) for one in plays]


def wanting(chain: int, index: int = 0) -> Want:
    return Want(chain, index, inputs=True, pictures=True)


def test_a_piece_is_written_several_times_and_the_oldest_of_too_many_goes() -> None:
    outbox = Outbox()
    outbox.put(piece(1, 0))
    assert [len(outbox.take(9999)) for _ in range(TIMES + 1)] == [1] * TIMES + [0]
    for index in range(MOST_PIECES + 5):
        outbox.put(piece(1, index))
    first = outbox.take(10 * len(piece(1, 0).piece))
    assert [one.captured_ms for one in first] == [1005 + index for index in range(10)]


def test_every_agent_is_served_in_turn_where_there_is_little_room() -> None:
    outbox = Outbox()
    for agent in range(3):
        for index in range(4):
            outbox.put(Handed(agent, index, bytes(100)))
    assert [one.agent for one in outbox.waiting(450)] == [0] * 4, "as much as there is room for"
    turns = [{one.agent for one in outbox.take(450)} for _ in range(3)]
    assert set.union(*turns) == {0, 1, 2}


def test_pieces_travel_in_a_segment_beside_the_pictures() -> None:
    writer = Writer("slot-0", "node1", "17", "0" * 8)
    packed = pack_segment(1, writer, 0, [report()], [], [piece(3, 1)])
    found = read_segment(packed)
    assert found
    assert found.pieces == (piece(3, 1),)


def test_a_chain_is_offered_with_its_first_piece_and_sent_once_it_is_wanted() -> None:
    inputs = Inputs()
    inputs.absorb([piece(7, 0, b"begins")], "a")
    assert inputs.messages(4, 9) == []
    inputs.absorb([piece(7, 0, b"begins"), piece(7, 1), piece(7, 1), piece(7, 2)], "a")
    (offered,) = inputs.messages(4, 9)
    offer = read_offer(offered.body)
    assert (offered.kind, offered.stream, offer.chain, offer.beginning) == (
        Kind.OFFER,
        4,
        1,
        b"begins",
    )
    inputs.hear(wanting(1))
    assert places(inputs.messages(4, 9)) == [(1, 1), (1, 2)]
    assert inputs.messages(4, 9) == []


def test_only_so_many_pieces_are_on_their_way() -> None:
    inputs = Inputs()
    inputs.absorb([piece(1, index) for index in range(9)], "a")
    inputs.messages(1, 3)
    inputs.hear(wanting(1))
    assert places(inputs.messages(1, 3)) == [(1, 1), (1, 2), (1, 3)]
    assert inputs.unacked_bytes() == 12
    inputs.hear(wanting(1, 2))
    assert places(inputs.messages(1, 3)) == [(1, 4), (1, 5)]
    inputs.absorb([piece(2, 0), piece(2, 1)], "a")
    inputs.hear(wanting(2))  # what was sent of the chain before has arrived
    assert places(inputs.messages(1, 3)) == [(1, 6), (1, 7), (1, 8), (2, 1)]


def test_another_job_and_another_chain_get_numbers_of_their_own() -> None:
    inputs = Inputs()
    inputs.absorb([piece(5, 0), piece(5, 1), piece(6, 0), piece(6, 1)], "a")
    inputs.absorb([piece(1, 0), piece(1, 1)], "its successor")
    offers = [read_offer(one.body).chain for one in inputs.messages(1, 9)]
    assert offers == [1, 2, 3]


def test_a_gap_shows_in_the_numbers_and_a_chain_without_beginning_is_passed_over() -> None:
    inputs = Inputs()
    inputs.absorb([piece(1, 1), piece(1, 2), piece(2, 0), piece(2, 1), piece(2, 3)], "a")
    assert len(inputs.messages(1, 9)) == 1
    inputs.hear(wanting(1))
    assert places(inputs.messages(1, 9)) == [(1, 1), (1, 3)]
    inputs.absorb([piece(3, 0), Handed(0, 0, b"torn")], "a")
    for index in range(1, 2 + CHAIN_BYTES // 2000):
        inputs.absorb([piece(3, index, bytes(2000))], "a")
    assert inputs.messages(1, 99) == []  # too long a chain is given up


def test_a_new_viewer_begins_the_newest_chain_and_declines_what_it_cannot_play() -> None:
    inputs = Inputs()
    inputs.absorb([piece(1, 0), piece(1, 1), piece(2, 0), piece(2, 1)], "a")
    inputs.messages(1, 9)
    inputs.hear(Want(2, 1, inputs=True, pictures=False))
    assert inputs.plays
    inputs.restart()
    assert not inputs.plays
    assert [read_offer(one.body).chain for one in inputs.messages(1, 9)] == [2]
    inputs.hear(Want(2, 0, inputs=False, pictures=True))
    assert inputs.messages(1, 9) == []


def test_bodies_of_another_length_are_refused() -> None:
    assert read_want(wanting(3, 4).pack()) == wanting(3, 4)
    for read in (read_want, read_offer, read_play):
        with pytest.raises(ProtocolError):
            read(b"abc")
    assert read_wish(Wish(2, 15.0, inputs=True).pack()).inputs
    assert not read_wish(Wish(2, 15.0).pack()).inputs


def test_a_verdict_becomes_a_want_and_a_frame_the_picture() -> None:
    said: list[booth.Word] = []
    replays = Replays(said.append)
    replays.hear(Message(Kind.OFFER, b"\1\0\0\0begins", stream=9), 5.0)
    (word,) = said
    assert booth.read_piece_word(word.body) == (5.0, Piece(1, 0, b"begins"))
    verdict = Verdict(1, 0, inputs=True, pictures=False, said="another game begins")
    told = replays.tell(booth.verdict(word.lane, verdict), 6.0)
    assert told
    stream, (answer,), text = told
    assert (stream, answer.stream, text) == (9, 9, "another game begins")
    assert read_want(answer.body) == Want(1, 0, inputs=True, pictures=False)
    assert replays.of(9) is None
    replays.tell(booth.shown(word.lane, Shown(1, 24, 5.0, bytes(SCREEN_BYTES))), 7.0)
    assert replays.of(9)
    back = Verdict(1, 0, inputs=False, pictures=True, never=True, said="another game")
    told = replays.tell(booth.verdict(word.lane, back), 8.0)
    assert told
    assert told[2] == "pictures instead of inputs: another game"
    assert replays.of(9) is None
    assert replays.never
    (answer,) = replays.keep(())
    assert said[-1].kind == booth.Kind.LEAVE
    assert (answer.kind, answer.stream) == (Kind.WANT, 9)
    assert read_want(answer.body) == Want(0, 0, inputs=False, pictures=True)


def test_no_more_streams_are_played_than_are_wished_for_and_two() -> None:
    said: list[booth.Word] = []
    replays = Replays(said.append)
    replays.wish(1)
    for stream in range(1, 9):
        replays.hear(Message(Kind.OFFER, b"\1\0\0\0begins", stream=stream), 5.0)
        replays.hear(Message(Kind.PLAY, b"\1\0\0\0\1\0\0\0\0\0\0\0play", stream=stream), 5.0)
    assert len({one.lane for one in said}) == 3
    assert len(said) == 6
    assert len(replays.keep([1])) == 2
    replays.hear(Message(Kind.OFFER, b"\2\0\0\0begins", stream=8), 5.0)
    assert said[-1].lane not in {one.lane for one in said[:6]}


def test_how_long_ago_is_told_in_seconds_then_in_minutes() -> None:
    assert (ago(5.2), ago(200)) == ("played 5 s ago", "played 3 min ago")
