"""Two sides that share a token connect; a peer without it gets no message in or out."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Daddy.streaming.protocol.framing import (
    HEADER,
    Message,
    MessageKind,
    ProtocolError,
    Reason,
    pack_json,
    pack_message,
    unpack_json,
)
from Daddy.streaming.protocol.handshake import RELAY, VIEWER, StreamSession, parse_tokens
from tests.streaming.helpers import OTHER, TOKEN, introduced, shake


def test_with_a_common_token_messages_pass_both_ways() -> None:
    relay, viewer = introduced()
    relay.send(Message(MessageKind.NOTE, b"hello"))
    viewer.send(Message(MessageKind.ACK, b"1234", stream=3))
    assert viewer.receive(relay.take_output()) == [Message(MessageKind.NOTE, b"hello")]
    assert relay.receive(viewer.take_output()) == [Message(MessageKind.ACK, b"1234", stream=3)]


def test_either_side_may_know_several_tokens() -> None:
    relay, viewer = (
        StreamSession(RELAY, [OTHER, TOKEN], b"r" * 16),
        StreamSession(VIEWER, [TOKEN], b"v" * 16),
    )
    shake(relay, viewer)
    assert relay.token == viewer.token == TOKEN


def test_without_a_common_token_both_key_ids_are_named_and_no_secret() -> None:
    relay, viewer = (
        StreamSession(RELAY, [OTHER], b"r" * 16),
        StreamSession(VIEWER, [TOKEN], b"v" * 16),
    )
    with pytest.raises(ProtocolError, match="no token in common") as caught:
        viewer.receive(relay.take_output())
    assert caught.value.reason is Reason.NO_COMMON_TOKEN
    assert TOKEN.key_id in str(caught.value)
    assert OTHER.key_id in str(caught.value)
    assert viewer.take_output() == b""


def test_a_viewer_says_nothing_before_it_is_greeted() -> None:
    assert StreamSession(VIEWER, [TOKEN], b"v" * 16).take_output() == b""


def test_who_knows_only_the_key_id_cannot_prove_the_token() -> None:
    viewer, impostor = (
        StreamSession(VIEWER, [TOKEN], b"v" * 16),
        StreamSession(RELAY, [TOKEN], b"r" * 16),
    )
    viewer.receive(impostor.take_output())
    viewer.take_output()
    with pytest.raises(ProtocolError, match="could not prove") as caught:
        viewer.receive(pack_message(Message(MessageKind.AUTH, bytes(32))))
    assert caught.value.reason is Reason.REFUSED
    assert viewer.take_output() == b""


def test_a_recorded_handshake_is_worth_nothing() -> None:
    relay, viewer = (
        StreamSession(RELAY, [TOKEN], b"r" * 16),
        StreamSession(VIEWER, [TOKEN], b"v" * 16),
    )
    hello = relay.take_output()
    viewer.receive(hello)
    relay.receive(viewer.take_output())
    auth = relay.take_output()
    later = StreamSession(VIEWER, [TOKEN], b"w" * 16)
    later.receive(hello)
    with pytest.raises(ProtocolError, match="could not prove"):
        later.receive(auth)


def test_a_proof_cannot_be_reflected() -> None:
    relay = StreamSession(RELAY, [TOKEN], b"r" * 16)
    with pytest.raises(ProtocolError, match="no greeting of a viewer"):
        relay.receive(relay.take_output())


def test_a_repeated_message_does_not_pass() -> None:
    relay, viewer = introduced()
    relay.send(Message(MessageKind.NOTE, b"once"))
    wire = relay.take_output()
    viewer.receive(wire)
    with pytest.raises(ProtocolError, match="MAC"):
        viewer.receive(wire)


def test_a_dropped_message_is_noticed() -> None:
    relay, viewer = introduced()
    relay.send(Message(MessageKind.NOTE, b"lost"))
    relay.take_output()
    relay.send(Message(MessageKind.NOTE, b"next"))
    with pytest.raises(ProtocolError, match="MAC"):
        viewer.receive(relay.take_output())


def test_what_a_viewer_sent_cannot_be_sent_back_to_it() -> None:
    _, viewer = introduced()
    viewer.send(Message(MessageKind.PING, bytes(16)))
    with pytest.raises(ProtocolError, match="MAC"):
        viewer.receive(viewer.take_output())


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_not_one_bit_of_a_sealed_message_can_be_changed(where: int, flip: int) -> None:
    relay, viewer = introduced()
    relay.send(Message(MessageKind.NOTE, b"a sentence of some length"))
    wire = bytearray(relay.take_output())
    wire[where % len(wire)] ^= flip
    with suppress(ProtocolError):
        assert viewer.receive(bytes(wire)) == []  # with a longer length it waits for bytes


def greeting(**changes: object) -> bytes:
    hello = {"proto": [2, 2], "role": RELAY, "nonce": "00" * 16, "keys": [TOKEN.key_id]}
    return pack_message(Message(MessageKind.HELLO, pack_json({**hello, **changes})))


def test_another_protocol_version_is_refused_with_both_versions() -> None:
    viewer = StreamSession(VIEWER, [TOKEN], b"v" * 16)
    with pytest.raises(ProtocolError, match=r"version 2, the relay 3-9") as caught:
        viewer.receive(greeting(proto=[3, 9]))
    assert caught.value.reason is Reason.VERSION


@pytest.mark.parametrize(
    "changes",
    [{"proto": 1}, {"proto": ["1", "1"]}, {"proto": [1]}, {"keys": "abc"}, {"role": "god"}],
)
def test_a_misshapen_greeting_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ProtocolError):
        StreamSession(VIEWER, [TOKEN], b"v" * 16).receive(greeting(**changes))


@pytest.mark.parametrize(
    "kind", [kind for kind in MessageKind if kind not in (MessageKind.HELLO, MessageKind.BYE)]
)
def test_nothing_but_a_greeting_may_come_first(kind: MessageKind) -> None:
    viewer = StreamSession(VIEWER, [TOKEN], b"v" * 16)
    with pytest.raises(ProtocolError):
        viewer.receive(HEADER.pack(kind, 0, 0, 0))


@settings(max_examples=300)
@given(st.binary(max_size=2000))
def test_garbage_never_does_more_than_end_the_connection(data: bytes) -> None:
    _, viewer = introduced()
    for session in (StreamSession(VIEWER, [TOKEN], b"v" * 16), viewer):
        with suppress(ProtocolError):
            assert session.receive(data) == []


def test_the_greeting_tells_nothing_but_versions_role_nonce_and_key_ids() -> None:
    wire = StreamSession(RELAY, [TOKEN], b"r" * 16).take_output()
    assert set(unpack_json(wire[HEADER.size :])) == {"proto", "role", "nonce", "keys"}
    assert TOKEN.secret.hex().encode() not in wire


def test_a_token_file_may_hold_labels_and_comments() -> None:
    text = f"# mine\n{TOKEN.secret.hex()} my laptop\n\n{OTHER.secret.hex()}\n"
    assert parse_tokens(text) == (TOKEN, OTHER)
    with pytest.raises(ValueError, match="line 2"):
        parse_tokens("\nabc\n")


def test_a_token_never_shows_its_secret() -> None:
    assert TOKEN.secret.hex() not in repr(TOKEN)
