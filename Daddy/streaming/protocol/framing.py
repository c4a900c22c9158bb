"""Pure. Frames messages of a relay and a viewer, each within its bound.

A message is an 8-byte header, a body whose length is bounded per kind *before* anything is
allocated, and after the handshake a 16-byte MAC. Damage is never searched through for the next
header: it raises :class:`ProtocolError`, and the connection closes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

VERSION = 2
MAC_BYTES = 16
HEADER = struct.Struct("<BBHI")
"""kind, flags, stream, length of the body."""
READ_BYTES = 16 * 1024
"""Bytes read from a socket at a time; with the longest message well below 64 KiB are ever held."""


class Kind(IntEnum):
    """Every message. Down: relay to viewer. Up: viewer to relay."""

    HELLO = 1
    AUTH = 2
    STATUS = 3
    TELEM = 4
    FRAME = 5
    NOTE = 6
    ACK = 7
    NEED_KEY = 8
    SUBSCRIBE = 9
    PING = 10
    PONG = 11
    BYE = 12


BODY_LIMIT: dict[int, int] = {
    Kind.HELLO: 1024,
    Kind.AUTH: 32,
    Kind.STATUS: 8192,
    Kind.TELEM: 16384,
    Kind.FRAME: 6144,
    Kind.NOTE: 512,
    Kind.ACK: 4,
    Kind.NEED_KEY: 0,
    Kind.SUBSCRIBE: 256,
    Kind.PING: 16,
    Kind.PONG: 16,
    Kind.BYE: 128,
}
UNKNOWN_LIMIT = 32768
"""Bytes of a message of another release's kind: skipped, not an error."""


class Reason(IntEnum):
    """Why a side says BYE."""

    DONE = 0
    VERSION = 1
    NO_COMMON_TOKEN = 2
    REFUSED = 3
    MALFORMED = 4
    SILENT = 5
    FULL = 6


class ProtocolError(Exception):
    """The other side broke the protocol; ``reason`` is what the BYE says."""

    def __init__(self, text: str, reason: Reason = Reason.MALFORMED) -> None:
        super().__init__(text)
        self.reason = reason


class Message(NamedTuple):
    """One message without its MAC."""

    kind: int
    body: bytes = b""
    stream: int = 0
    flags: int = 0


def pack(message: Message) -> bytes:
    """Header and body; ValueError when the body is over its kind's limit (our own mistake)."""
    if len(message.body) > _limit(message.kind):
        raise ValueError(f"{len(message.body)} bytes are too long for kind {message.kind}")
    header = HEADER.pack(message.kind, message.flags, message.stream, len(message.body))
    return header + message.body


def _limit(kind: int) -> int:
    return BODY_LIMIT.get(kind, UNKNOWN_LIMIT)


class Splitter:
    """Bytes in, whole messages out; holds one message and one read at most."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._check: Callable[[bytes, bytes], None] | None = None

    def seal(self, check: Callable[[bytes, bytes], None]) -> None:
        """From the next message on call ``check(header and body, mac)``."""
        self._check = check

    def feed(self, data: bytes) -> None:
        """Add bytes that arrived (at most ``READ_BYTES`` at a time)."""
        self._buffer += data

    def next(self) -> Message | None:
        """The next whole message, or None; ProtocolError as soon as a header is impossible."""
        if len(self._buffer) < HEADER.size:
            return None
        kind, flags, stream, length = HEADER.unpack_from(self._buffer)
        if length > _limit(kind):
            raise ProtocolError(f"kind {kind} announces {length} bytes, limit {_limit(kind)}")
        end = HEADER.size + length
        total = end + (MAC_BYTES if self._check else 0)
        if len(self._buffer) < total:
            return None
        raw = bytes(self._buffer[:total])
        del self._buffer[:total]
        if self._check:
            self._check(raw[:end], raw[end:])
        return Message(kind, raw[HEADER.size : end], stream, flags)


def to_json(value: Mapping[str, Any]) -> bytes:
    """Compact JSON for a message's body."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def from_json(body: bytes) -> dict[str, Any]:
    """The JSON object of a message's body; ProtocolError when it is none."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a body is not valid JSON") from error
    if not isinstance(value, dict):
        raise ProtocolError("a body holds no JSON object")
    return value


def clean(text: object, limit: int = 64) -> str:
    """Text from the wire made safe to print: no control characters, at most ``limit`` long."""
    return "".join(c for c in str(text)[:limit] if c.isprintable())


def bye(reason: Reason, text: str) -> Message:
    """A BYE with its reason and a sentence for the person."""
    return Message(Kind.BYE, bytes([reason]) + text.encode()[: BODY_LIMIT[Kind.BYE] - 1])


def read_bye(body: bytes) -> tuple[int, str]:
    """Reason code and sentence of a BYE."""
    code = body[0] if body else int(Reason.DONE)
    return code, clean(body[1:].decode(errors="replace"), BODY_LIMIT[Kind.BYE])


def copy_line(login: str) -> str:
    """The line to type on the laptop, once, for the login node's token."""
    return f"ssh {login} cat .config/daddy/stream.token >> ~/.config/daddy/stream.token"
