"""Messages arrive complete from any pieces; invalid ones end the connection at once."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Daddy.streaming.protocol.framing import (
    BODY_LIMIT,
    HEADER,
    READ_BYTES,
    UNKNOWN_LIMIT,
    Message,
    MessageKind,
    MessageSplitter,
    ProtocolError,
    Reason,
    clean_text,
    make_bye,
    pack_message,
    read_bye,
    unpack_json,
)

messages = st.builds(
    Message,
    kind=st.sampled_from([MessageKind.STATUS, MessageKind.FRAME, MessageKind.NOTE]),
    body=st.binary(max_size=500),
    stream=st.integers(0, 0xFFFF),
    flags=st.integers(0, 255),
)


@given(st.lists(messages, max_size=8), st.integers(1, 97))
def test_messages_arrive_whole_whatever_the_pieces(sent: list[Message], piece: int) -> None:
    wire = b"".join(pack_message(message) for message in sent)
    splitter, got = MessageSplitter(), []
    for start in range(0, len(wire), piece):
        splitter.feed(wire[start : start + piece])
        while (message := splitter.next_message()) is not None:
            got.append(message)
    assert got == sent


@pytest.mark.parametrize("kind", list(MessageKind))
def test_a_length_over_the_bound_is_refused_from_the_header_alone(kind: MessageKind) -> None:
    splitter = MessageSplitter()
    splitter.feed(HEADER.pack(kind, 0, 0, BODY_LIMIT[kind] + 1))
    with pytest.raises(ProtocolError, match="limit"):
        splitter.next_message()


def test_four_gigabytes_are_refused_before_a_byte_of_them() -> None:
    splitter = MessageSplitter()
    splitter.feed(HEADER.pack(MessageKind.FRAME, 0, 1, 0xFFFFFFFF))
    with pytest.raises(ProtocolError, match="4294967295"):
        splitter.next_message()


def test_kinds_of_a_newer_version_pass_within_a_bound() -> None:
    splitter = MessageSplitter()
    splitter.feed(pack_message(Message(200, b"new", 7)))
    assert splitter.next_message() == Message(200, b"new", 7)
    splitter.feed(HEADER.pack(200, 0, 0, UNKNOWN_LIMIT + 1))
    with pytest.raises(ProtocolError):
        splitter.next_message()


def test_a_connection_never_holds_more_than_64_kib() -> None:
    assert HEADER.size + UNKNOWN_LIMIT + 16 + READ_BYTES < 64 * 1024


def test_our_own_oversized_message_is_a_bug_and_raises() -> None:
    with pytest.raises(ValueError, match="too long"):
        pack_message(Message(MessageKind.ACK, b"12345"))


@given(st.binary(max_size=4000))
def test_garbage_raises_or_waits_but_never_fails_otherwise(data: bytes) -> None:
    splitter = MessageSplitter()
    splitter.feed(data)
    with contextlib.suppress(ProtocolError):
        while splitter.next_message() is not None:
            pass


def test_text_from_the_wire_cannot_steer_a_terminal() -> None:
    assert clean_text("\x1b[2Jhello\r\n\u202eworld") == "[2Jhelloworld"
    assert len(clean_text("x" * 500)) == 64


def test_a_farewell_carries_its_reason_and_is_cut_to_its_bound() -> None:
    code, text = read_bye(make_bye(Reason.REFUSED, "no" * 200).body)
    assert code == Reason.REFUSED
    assert text.startswith("nono")


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"1", b"[" * 900, b"\xff\xfe"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        unpack_json(body)
