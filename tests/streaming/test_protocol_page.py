"""A second client, written from ``docs/stream-protocol.md`` alone: sockets, struct, hmac, zlib.

It must understand a real relay. When it fails, the page and the code have parted.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import struct
import threading
import zlib
from pathlib import Path

import pytest

from Daddy.core.clock import SystemClock
from Daddy.streaming.messages import Wish
from Daddy.streaming.relay import make_relay
from Daddy.streaming.tokens import ensure_token
from Daddy.streaming.tunnel_client import FrameSender
from tests.streaming.helpers import picture, report

HELLO, AUTH, STATUS, TELEM, FRAME, NOTE, ACK, NEED_KEY, SUBSCRIBE, PING, PONG, BYE = range(1, 13)


class PageClient:
    """A viewer as the page describes it."""

    def __init__(self, connection: socket.socket, token: bytes) -> None:
        self.wire = connection.makefile("rb")
        self.connection = connection
        self.pictures: dict[tuple[int, int], bytes] = {}
        self.sent = self.heard = 0
        self.keys: dict[str, bytes] = {}
        kind, _, relay_hello = self.read()
        assert kind == HELLO
        hello = json.loads(relay_hello)
        key_id = hashlib.sha256(b"daddy-stream-1 key-id " + token).hexdigest()[:8]
        assert (hello["role"], hello["proto"], hello["keys"]) == ("relay", [1, 1], [key_id])
        mine = json.dumps(
            {"proto": [1, 1], "role": "viewer", "nonce": "ab" * 16, "keys": [key_id]}
        ).encode()
        self.write(HELLO, mine)
        bound = hashlib.sha256(
            b"daddy-stream-1 "
            + struct.pack("<I", len(relay_hello)) + relay_hello
            + struct.pack("<I", len(mine)) + mine
        ).digest()  # fmt: skip
        kind, _, proof = self.read()
        assert kind == AUTH
        assert proof == hmac.digest(token, b"daddy-stream-1 auth relay " + bound, "sha256")
        self.write(AUTH, hmac.digest(token, b"daddy-stream-1 auth viewer " + bound, "sha256"))
        self.keys = {
            role: hmac.digest(token, f"daddy-stream-1 key {role} ".encode() + bound, "sha256")
            for role in ("relay", "viewer")
        }

    def read(self) -> tuple[int, int, bytes]:
        header = self.wire.read(8)
        kind, _, stream, length = struct.unpack("<BBHI", header)
        body = self.wire.read(length)
        if self.keys:
            message = struct.pack("<Q", self.heard) + header + body
            assert self.wire.read(16) == hmac.digest(self.keys["relay"], message, "sha256")[:16]
            self.heard += 1
        return kind, stream, body

    def write(self, kind: int, body: bytes, stream: int = 0) -> None:
        data = struct.pack("<BBHI", kind, 0, stream, len(body)) + body
        if self.keys:
            message = struct.pack("<Q", self.sent) + data
            data += hmac.digest(self.keys["viewer"], message, "sha256")[:16]
            self.sent += 1
        self.connection.sendall(data)

    def decode(self, stream: int, body: bytes) -> tuple[bytes, bool]:
        """The row-major picture, and whether it was a delta."""
        seq, base, _, _, form, _, _ = struct.unpack("<IIIIBBH", body[:20])
        assert form == 1
        extra = {"zdict": self.pictures[stream, base]} if base else {}
        tiles = zlib.decompressobj(-15, **extra).decompress(body[20:])
        self.pictures[stream, seq] = tiles
        self.write(ACK, struct.pack("<I", seq), stream)
        rows = bytearray(5760)
        for r in range(144):
            for c in range(20):
                for b in range(2):
                    rows[r * 40 + 2 * c + b] = tiles[((r // 8) * 20 + c) * 16 + (r % 8) * 2 + b]
        return bytes(rows), bool(base)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "slim_run" / "stream").mkdir(parents=True)
    return tmp_path / "slim_run"


def test_a_client_written_from_the_page_sees_what_the_learner_sent(run: Path, tmp_path) -> None:
    token_file, stop = tmp_path / "token", threading.Event()
    ensure_token(token_file, "page")
    token = bytes.fromhex(token_file.read_text().split()[0])
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(10)
    relay = make_relay(
        run, listener.getsockname()[1], [token_file], Wish(1, 15), "ssh-R", SystemClock()
    )
    threads = [
        threading.Thread(target=relay.run, args=(stop,)),
        threading.Thread(target=_play, args=(run / "stream", stop)),
    ]
    for thread in threads:
        thread.start()
    try:
        connection, _ = listener.accept()
        connection.settimeout(15)
        with connection:
            client = PageClient(connection, token)
            client.write(SUBSCRIBE, b'{"k": 1, "fps": 15}')
            seen = _watch(client)
    finally:
        stop.set()
        for thread in threads:
            thread.join(5)
        listener.close()
    assert seen["pictures"] <= {picture(step) for step in range(40)}
    assert len(seen["pictures"]) > 5
    assert seen["deltas"] > 5
    assert seen["status"]["run"] == "slim_run"
    assert seen["status"]["via"] == "ssh-R"
    assert seen["status"]["maps"]["1"] == "Fern Hollow"
    stream, peer, agent, place, badges, level = struct.unpack_from("<HHHHBB", seen["row"])
    assert seen["status"]["peers"][peer][0] == "slot-0"
    assert (agent, place, badges, level) == (1, 1, 4, 5)
    assert stream > 0


def _play(stream: Path, stop: threading.Event) -> None:
    with FrameSender(stream, "slot-0") as sender:
        step = 0
        while not stop.wait(1 / 30):
            step += 1
            sender.report([report(0), report(1, badges=4, step=step)])
            for agent in sender.wanted():
                sender.offer(agent, picture(step % 40))


def _watch(client: PageClient) -> dict:
    seen = {"pictures": set(), "deltas": 0, "status": {}, "row": b""}
    for _ in range(400):
        kind, stream, body = client.read()
        if kind == FRAME:
            pixels, delta = client.decode(stream, body)
            seen["pictures"].add(pixels)
            seen["deltas"] += delta
        elif kind == STATUS:
            seen["status"] = json.loads(body)
        elif kind == TELEM and len(body) >= 32:
            seen["row"] = body[:32]
        elif kind == PING:
            client.write(PONG, body[:8] + bytes(8))
        if len(seen["pictures"]) > 15 and seen["deltas"] > 5:
            break
    return seen
