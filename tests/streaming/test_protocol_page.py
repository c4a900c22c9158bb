"""A second client, written from ``docs/stream-protocol.md`` alone: sockets, struct, hmac, zlib.

It must understand a real relay. If it fails, the document and the code differ.
"""

import hashlib
import hmac
import json
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from Daddy.core.clock import SystemClock
from Daddy.streaming.protocol.handshake import ensure_token, load_tokens
from Daddy.streaming.protocol.messages import Subscription
from Daddy.streaming.relay import make_relay
from Daddy.streaming.tunnel_client import FrameSender
from Daddy.streaming.viewer.receiver import Receiver
from tests.patience import PATIENCE_S
from tests.streaming.helpers import picture, report

HELLO, AUTH, STATUS, TELEM, FRAME, NOTE, ACK, NEED_KEY, SUBSCRIBE, PING, PONG, BYE = range(1, 13)


class PageClient:
    """A viewer as the document describes it."""

    def __init__(self, connection: socket.socket, token: bytes, newest: int) -> None:
        self.wire = connection.makefile("rb")
        self.connection = connection
        self.formats: set[int] = set()
        self.pictures: dict[tuple[int, int], bytes] = {}
        self.sent = self.heard = 0
        self.keys: dict[str, bytes] = {}
        kind, _, relay_hello = self.read()
        assert kind == HELLO
        hello = json.loads(relay_hello)
        key_id = hashlib.sha256(b"daddy-stream-1 key-id " + token).hexdigest()[:8]
        assert (hello["role"], hello["proto"], hello["keys"]) == ("relay", [2, 2], [key_id])
        our_hello = json.dumps(
            {"proto": [1, newest], "role": "viewer", "nonce": "ab" * 16, "keys": [key_id]}
        ).encode()
        self.write(HELLO, our_hello)
        bound = hashlib.sha256(
            b"daddy-stream-1 "
            + struct.pack("<I", len(relay_hello)) + relay_hello
            + struct.pack("<I", len(our_hello)) + our_hello
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
        """Return the row-major picture, and True if it was a delta."""
        seq, base, _, _, form, more, _ = struct.unpack("<IIIIBBH", body[:20])
        self.formats.add(form)
        if form == 2:
            newest_first = [self.pictures[stream, base - back] for back in range(more + 1)]
            tiles = _tiling(body[20:], newest_first)
        else:
            assert (form, more) == (1, 0)
            extra = {"zdict": self.pictures[stream, base]} if base else {}
            tiles = zlib.decompressobj(-15, **extra).decompress(body[20:])
        self.pictures[stream, seq] = tiles
        self.write(ACK, struct.pack("<I", seq), stream)
        return _rows(tiles), bool(base)


def _tiling(data: bytes, newest_first: list[bytes]) -> bytes:
    """Decode format 2 of section 1: numbers into a table of the bases' tiles, then other tiles."""
    shown = [[tiles[at : at + 16] for at in range(0, 5760, 16)] for tiles in newest_first]
    table: list[bytes] = []
    for tile in (tile for tiles in shown for tile in tiles):
        if tile not in table and len(table) < 255:
            table.append(tile)
    maps = [[table.index(t) if t in table else 255 for t in tiles] for tiles in shown[:8]]
    dictionary = b"".join(table) + b"".join(bytes(numbers) for numbers in reversed(maps))
    plain = zlib.decompressobj(-15, zdict=dictionary).decompress(data)
    tiles, at = b"", 360
    for number in plain[:360]:
        if number == 255:
            tiles, at = tiles + plain[at : at + 16], at + 16
        else:
            tiles += table[number]
    assert (len(tiles), at) == (5760, len(plain))
    return tiles


def _rows(tiles: bytes) -> bytes:
    """Convert tile order to rows, as section 1 describes it."""
    rows = bytearray(5760)
    for r in range(144):
        for c in range(20):
            for b in range(2):
                rows[r * 40 + 2 * c + b] = tiles[((r // 8) * 20 + c) * 16 + (r % 8) * 2 + b]
    return bytes(rows)


def test_a_client_written_from_the_page_sees_what_the_learner_sent(
    run: Path, token_file: Path
) -> None:
    with served(run, token_file, newest=9) as client:
        client.write(SUBSCRIBE, b'{"k": 1, "fps": 15}')
        seen = _watch(client)
    assert seen["pictures"] <= {picture(step) for step in range(40)}
    assert client.formats == {1, 2}
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
            sender.send_reports([report(0), report(1, badges=4, step=step)])
            for agent in sender.wanted_agents():
                sender.send_picture(agent, picture(step % 40))


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


@contextmanager
def served(run: Path, token_file: Path, newest: int = 2) -> Iterator[PageClient]:
    """Run a real relay and a learner; yield the document's client once it has proved the token."""
    stop = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(PATIENCE_S)
    relay = make_relay(
        run, listener.getsockname()[1], [token_file], Subscription(1, 15), "ssh-R", SystemClock()
    )
    threads = [
        threading.Thread(target=relay.serve_until, args=(stop,)),
        threading.Thread(target=_play, args=(run / "stream", stop)),
    ]
    for thread in threads:
        thread.start()
    try:
        connection, _ = listener.accept()
        connection.settimeout(PATIENCE_S)
        with connection:
            token = bytes.fromhex(token_file.read_text().split()[0])
            yield PageClient(connection, token, newest)
    finally:
        stop.set()
        for thread in threads:
            thread.join(5)
        listener.close()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    ensure_token(tmp_path / "token", "page")
    return tmp_path / "token"


def test_the_relay_does_the_rest_of_what_the_page_says(run: Path, token_file: Path) -> None:
    """Whole pictures on request, numbers from 1, later kinds skipped, a BYE with a reason."""
    with served(run, token_file) as client:
        client.write(200, b"of a later version", stream=3)
        first, second = _frames(client, 2)
        assert first[:2] == (1, 0), "the first picture of a stream is whole"
        assert second[0] == 2
        assert second[1] in (0, 1)
        client.write(NEED_KEY, b"", stream=second[2])
        after = _frames(client, 12)
        assert any(base == 0 for _, base, _ in after), "NEED_KEY is answered by a whole one"
        client.keys["viewer"] = bytes(32)
        client.write(ACK, struct.pack("<I", 1), stream=second[2])
        while (message := client.read())[0] != BYE:
            pass
    assert message[2][0] == 3, "refused: a MAC does not fit"
    assert b"MAC" in message[2]


def _frames(client: PageClient, count: int) -> list[tuple[int, int, int]]:
    """Return (sequence, base, stream) of the next frames; each is decoded and acknowledged."""
    result: list[tuple[int, int, int]] = []
    while len(result) < count:
        kind, stream, body = client.read()
        if kind == FRAME:
            assert len(body) <= 6144
            client.decode(stream, body)
            result.append((*struct.unpack_from("<II", body), stream))
        elif kind == PING:
            client.write(PONG, body[:8] + bytes(8))
    return result


def test_status_and_telemetry_have_every_field_of_the_page(run: Path, token_file: Path) -> None:
    with served(run, token_file) as client:
        messages: dict[int, bytes] = {}
        while not ({STATUS, TELEM, PING} <= set(messages) and messages[TELEM][:2] != b"\0\0"):
            kind, stream, body = client.read()
            if kind == FRAME:
                client.decode(stream, body)
            if body:
                messages[kind] = body
    assert set(json.loads(messages[STATUS])) == {
        "run", "workload", "host", "via", "agents", "steps", "steps_per_s", "best", "delay_s",
        "peers", "maps", "direct",
    }  # fmt: skip
    row = struct.unpack("<HHHHBBHhfIIHHH", messages[TELEM][:32])
    stream, peer, agent, place, badges, level, flags, here, back, episode, step, age, *rest = row
    assert (peer, agent, place, badges, level, flags, here) == (0, 1, 1, 4, 5, 0, 1)
    assert (back, episode, rest) == (0.0, 0, [0, 0])
    assert stream > 0
    assert step > 0
    assert age < 600
    clock, zero = struct.unpack("<QQ", messages[PING])
    assert clock > 0
    assert zero == 0


def test_the_spool_and_the_wish_list_are_as_the_page_says(run: Path, token_file: Path) -> None:
    stream = run / "stream"
    with served(run, token_file) as client:
        _frames(client, 8)
        wishes = json.loads((stream / "wanted.json").read_text())
        result = [_segment(stream / "spool" / f"slot-0.{end}", end) for end in "ab"]
    assert set(wishes) == {"v", "counter", "fps", "wanted", "host"}
    assert wishes["wanted"] == {"slot-0": [1]}
    shown = {agent: pixels for part in result if part for agent, pixels in part.items()}
    assert set(shown) <= {1}
    assert all(pixels in {picture(step) for step in range(40)} for pixels in shown.values())


def _segment(path: Path, end: str) -> dict[int, bytes] | None:
    """Return the last picture of each agent; None while the other process writes the file."""
    data = path.read_bytes()
    magic, version, zero, number, length, checksum = struct.unpack_from("<4sHHQII", data)
    body = data[24 : 24 + length]
    if zlib.crc32(struct.pack("<QI", number, length) + body) != checksum:
        return None
    assert (magic, version, zero, number % 2) == (b"DSEG", 1, 0, "ab".index(end))
    assert len(data) <= 65_536
    kinds, pictures, tiles = [], {}, {}
    while body:
        kind, _, agent, size = struct.unpack_from("<BBHI", body)
        part, body = body[8 : 8 + size], body[8 + size :]
        kinds.append(kind)
        if kind == HELLO:
            hello = json.loads(part)
        elif kind == FRAME:
            extra = {"zdict": tiles[agent]} if struct.unpack_from("<I", part, 4)[0] else {}
            tiles[agent] = zlib.decompressobj(-15, **extra).decompress(part[20:])
            pictures[agent] = _rows(tiles[agent])
    assert kinds[:2] == [HELLO, TELEM]
    assert set(hello) == {"peer", "host", "job", "incarnation", "sent_ms", "maps"}
    assert hello["peer"] == "slot-0"
    return pictures


def test_a_viewer_answers_a_version_it_does_not_speak_as_the_page_says(token_file: Path) -> None:
    viewer = Receiver(0, lambda: load_tokens([token_file]), Subscription(1, 15), SystemClock())
    body = json.dumps({"proto": [7, 8], "role": "relay", "nonce": "0" * 32, "keys": []}).encode()
    try:
        with socket.create_connection(("127.0.0.1", viewer.port), timeout=PATIENCE_S) as wire:
            wire.sendall(struct.pack("<BBHI", HELLO, 0, 0, len(body)) + body)
            reply = wire.makefile("rb").read()
    finally:
        viewer.close()
    assert struct.unpack_from("<BBHI", reply) == (BYE, 0, 0, len(reply) - 8)
    assert reply[8] == 1, "reason: version"
