"""A peer that knows the token may be hostile: it cannot make a process grow or end."""

import json
import os
import socket
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from Daddy.core.clock import SystemClock
from Daddy.core.errors import NetworkError
from Daddy.streaming.protocol import frame_codec, handshake
from Daddy.streaming.protocol.framing import (
    Message,
    MessageKind,
    ProtocolError,
    pack_json,
    pack_message,
    read_bye,
    unpack_json,
)
from Daddy.streaming.protocol.handshake import RELAY, StreamSession
from Daddy.streaming.protocol.messages import (
    Frame,
    Peer,
    Subscription,
    pack_rows,
    pack_stamps,
    read_status,
    row_from_report,
)
from Daddy.streaming.viewer import receiver as module
from Daddy.streaming.viewer.receiver import Receiver
from Daddy.streaming.viewer.view_model import MAX_NAMES, RelayState, compose_scene
from tests.patience import PATIENCE_S, until
from tests.streaming.helpers import TOKEN, picture, report
from tests.streaming.test_messages import status
from tests.streaming.test_view_model import send


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver(0, lambda: [TOKEN], Subscription(2, 60.0), SystemClock())
    yield made
    made.close()


@contextmanager
def believed(port: int) -> Iterator[tuple[socket.socket, StreamSession]]:
    """Connect a relay of the test to the viewer at ``port`` and prove the token."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as wire:
        relay = StreamSession(RELAY, [TOKEN], b"r" * 16)
        while not relay.established:
            wire.sendall(relay.take_output())
            data = wire.recv(4096)
            assert data
            relay.receive(data)
        yield wire, relay


def closed(wire: socket.socket) -> bool:
    """Return True if the other side has closed the connection; read its messages before."""
    try:
        while wire.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


def test_a_status_of_long_names_always_fits() -> None:
    peers = tuple(Peer("s" * 31, "ö" * 64, "ö" * 32) for _ in range(32))
    long = replace(status(), peers=peers, maps=dict.fromkeys(range(64), "é" * 40))
    assert read_status(long.to_body()).peers


def test_numbers_of_any_size_are_shown_and_end_nothing() -> None:
    raw = unpack_json(status().to_body())
    raw |= {"steps": 10**400, "agents": -5, "best": 10**300}
    parsed = read_status(json.dumps(raw).encode())
    assert (parsed.steps, parsed.agents, parsed.best) == (2**63 - 1, 0, 2**63 - 1)


def test_names_beyond_a_runs_are_shown_and_not_counted() -> None:
    source = RelayState("ssh")
    for agent in range(MAX_NAMES + 50):
        row = replace(row_from_report(report(agent)), stream=1 + agent % 0xFFFF, place=1)
        source.handle_message(Message(MessageKind.TELEM, pack_rows([row])), 0.0)
        send(source, row.stream, picture(agent % 7), now=1.0)
    assert len(source.frame_counts) == MAX_NAMES
    assert compose_scene([source], 2, 1.0, (), "", {}).panels[0].pixels is not None


def test_places_that_no_window_has_are_not_kept() -> None:
    source = RelayState("ssh")
    for place in range(1, 100):
        row = replace(row_from_report(report(place)), stream=place, place=place)
        source.handle_message(Message(MessageKind.TELEM, pack_rows([row])), 0.0)
        send(source, place, picture(place % 7), now=1.0)
    assert len(source._outgoing) <= 16


def test_a_relay_that_never_reads_is_given_up(receiver: Receiver, monkeypatch) -> None:
    monkeypatch.setattr(module, "OUT_LIMIT", 20_000)
    with believed(receiver.port) as (wire, relay):
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.settimeout(PATIENCE_S)
        with suppress(ConnectionError):
            while True:
                for _ in range(500):
                    relay.send(Message(MessageKind.PING, pack_stamps(1)))
                wire.sendall(relay.take_output())
    assert until(lambda: not receiver.current_scene(2).connected, 10)


def test_a_laptop_that_slept_begins_anew_at_once(monkeypatch) -> None:
    class Sleeper(SystemClock):
        slept = 0.0

        def now(self) -> float:
            return super().now() + self.slept

    monkeypatch.setattr(handshake, "SILENT_S", 1e9)
    clock = Sleeper()
    viewer = Receiver(0, lambda: [TOKEN], Subscription(2, 60.0), clock)
    try:
        with believed(viewer.port) as (wire, _):
            assert until(lambda: viewer.current_scene(2).connected, 10)
            clock.slept = 8 * 3600.0
            assert closed(wire)
        with believed(viewer.port):
            assert until(lambda: viewer.current_scene(2).connected, 10)
    finally:
        viewer.close()


@pytest.mark.parametrize("bad", ["a bomb", "cut", "an unknown base"])
def test_three_pictures_that_cannot_be_decoded_end_one_connection_and_no_other(
    receiver: Receiver, bad: str
) -> None:
    whole = frame_codec.encode(picture(1))
    data = {"a bomb": zlib.compress(bytes(4_000_000), 9)[2:-4][:6000], "cut": whole[:-9],
            "an unknown base": whole}[bad]  # fmt: skip
    base = 7 if bad == "an unknown base" else 0
    row = replace(row_from_report(report(3)), stream=1, place=1)
    with believed(receiver.port) as (wire, relay), believed(receiver.port) as (good, _):
        relay.send(Message(MessageKind.TELEM, pack_rows([row])))
        relay.send(Message(MessageKind.FRAME, Frame(1, 0, 0, 0, 0, whole).to_body(), 1))
        wire.sendall(relay.take_output())
        assert until(lambda: any(p.pixels for p in receiver.current_scene(2).panels), 10)
        answers: list[Message] = []
        for number in range(2, 4):
            relay.send(Message(MessageKind.FRAME, Frame(number, base, 0, 0, 0, data).to_body(), 1))
        wire.sendall(relay.take_output())
        while sum(message.kind == MessageKind.NEED_KEY for message in answers) < 2:
            answers += relay.receive(wire.recv(4096))
        assert receiver.current_scene(2).panels[0].pixels == picture(1), "the last good one stays"
        relay.send(Message(MessageKind.FRAME, Frame(4, base, 0, 0, 0, data).to_body(), 1))
        wire.sendall(relay.take_output())
        assert closed(wire)
        assert receiver.current_scene(2).connected, "the other relay is served on"
        assert good.fileno() > 0


def test_a_relay_of_another_version_is_told_both(receiver: Receiver) -> None:
    hello = {"proto": [3, 9], "role": "relay", "nonce": "00" * 16, "keys": [TOKEN.key_id]}
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=PATIENCE_S) as wire:
        wire.sendall(pack_message(Message(MessageKind.HELLO, pack_json(hello))))
        reply = wire.makefile("rb").read()
    assert reply[0] == MessageKind.BYE
    assert "version 2, the relay 3-9" in read_bye(reply[8:])[1]
    assert "3-9" in receiver.refused


def test_a_stranger_who_listens_gets_no_picture_even_with_the_key_id() -> None:
    relay = StreamSession(RELAY, [TOKEN], b"r" * 16)
    relay.take_output()
    hello = {"proto": [2, 2], "role": "viewer", "nonce": "00" * 16, "keys": [TOKEN.key_id]}
    relay.receive(pack_message(Message(MessageKind.HELLO, pack_json(hello))))
    relay.take_output()
    with pytest.raises(ProtocolError, match="could not prove"):
        relay.receive(pack_message(Message(MessageKind.AUTH, bytes(32))))
    assert not relay.established
    assert relay.take_output() == b""


def test_a_connection_that_comes_while_all_is_closed_is_closed(receiver: Receiver) -> None:
    receiver.close()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(PATIENCE_S)
        receiver.adopt_socket(theirs, b"")
        assert theirs.fileno() < 0
        assert ours.recv(1) == b""


def test_a_port_in_use_names_who_uses_it(receiver: Receiver) -> None:
    with pytest.raises(NetworkError, match=f"in use by .*process {os.getpid()}"):
        Receiver(receiver.port, lambda: [TOKEN], Subscription(2, 60.0), SystemClock())
