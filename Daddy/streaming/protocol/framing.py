"""Pure. Packs and splits the messages of a relay and a viewer, each with a bounded length.

A message is an 8-byte header, a body whose length is checked against its kind's limit *before*
memory is allocated, and after the handshake a 16-byte MAC. A damaged message raises
:class:`ProtocolError`, and the connection closes; no later header is searched for.
"""

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
"""Bytes read from a socket at a time; with the longest message less than 64 KiB are held."""


class MessageKind(IntEnum):
    """Lists the kinds of messages between job, relay and viewer."""

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
    MessageKind.HELLO: 1024,
    MessageKind.AUTH: 32,
    MessageKind.STATUS: 8192,
    MessageKind.TELEM: 16384,
    MessageKind.FRAME: 6144,
    MessageKind.NOTE: 512,
    MessageKind.ACK: 4,
    MessageKind.NEED_KEY: 0,
    MessageKind.SUBSCRIBE: 256,
    MessageKind.PING: 16,
    MessageKind.PONG: 16,
    MessageKind.BYE: 128,
}
UNKNOWN_LIMIT = 32768
"""Most bytes of a message of an unknown kind, which another release may send; it is skipped."""


class Reason(IntEnum):
    """Lists the reasons that a BYE message gives for closing a connection."""

    DONE = 0
    VERSION = 1
    NO_COMMON_TOKEN = 2
    REFUSED = 3
    MALFORMED = 4
    SILENT = 5
    FULL = 6


class ProtocolError(Exception):
    """Reports that the other side broke the protocol; ``reason`` goes into our BYE message."""

    def __init__(self, text: str, reason: Reason = Reason.MALFORMED) -> None:
        super().__init__(text)
        self.reason = reason


class Message(NamedTuple):
    """Holds kind, body, stream number and flags of a message, without its MAC."""

    kind: int
    body: bytes = b""
    stream: int = 0
    flags: int = 0


def pack_message(message: Message) -> bytes:
    """Return header and body. ValueError if the body exceeds its kind's limit."""
    if len(message.body) > _limit(message.kind):
        raise ValueError(f"a body of {len(message.body)} bytes is too long for kind {message.kind}")
    header = HEADER.pack(message.kind, message.flags, message.stream, len(message.body))
    return header + message.body


def _limit(kind: int) -> int:
    return BODY_LIMIT.get(kind, UNKNOWN_LIMIT)


class MessageSplitter:
    """Splits received bytes into messages; buffers at most one message and one read."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._check: Callable[[bytes, bytes], None] | None = None

    def verify_with(self, check: Callable[[bytes, bytes], None]) -> None:
        """Call ``check(header and body, mac)`` for every later message."""
        self._check = check

    def feed(self, data: bytes) -> None:
        """Add received bytes, at most ``READ_BYTES`` at a time."""
        self._buffer += data

    def next_message(self) -> Message | None:
        """Return the next complete message, or None; ProtocolError for an invalid header."""
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


def pack_json(value: Mapping[str, Any]) -> bytes:
    """Return compact JSON for a message's body."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def unpack_json(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a message's body; ProtocolError for any other body."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a message's body is not valid JSON") from error
    if not isinstance(value, dict):
        raise ProtocolError("a message's body holds no JSON object")
    return value


def clean_text(text: object, limit: int = 64) -> str:
    """Return received text without control characters, cut to ``limit`` characters."""
    return "".join(c for c in str(text)[:limit] if c.isprintable())


def make_bye(reason: Reason, text: str) -> Message:
    """Return a BYE with its reason and a sentence for people."""
    most = BODY_LIMIT[MessageKind.BYE] - 1
    return Message(MessageKind.BYE, bytes([reason]) + text.encode()[:most])


def read_bye(body: bytes) -> tuple[int, str]:
    """Return the reason code and the sentence of a BYE."""
    code = body[0] if body else int(Reason.DONE)
    return code, clean_text(body[1:].decode(errors="replace"), BODY_LIMIT[MessageKind.BYE])


def token_copy_command(login: str) -> str:
    """Return the command, typed once, that copies the login node's token to the laptop."""
    return f"ssh {login} cat .config/daddy/stream.token >> ~/.config/daddy/stream.token"
