"""Pure: what a viewer and the emulator beside it (a process of its own) say to each other.

Owns the words, so that neither imports the other. A word is a head of 7 bytes (what, which lane,
how long) and a body; lanes are the viewer's numbers of streams.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from enum import IntEnum
from typing import Final, NamedTuple

from Daddy.core.piece import PIECE_BYTES, Piece, read_piece
from Daddy.core.vocabulary import SCREEN_BYTES

_HEAD = struct.Struct("<BHI")
_PIECE = struct.Struct("<d")
_SHOWN = struct.Struct("<IId")
_SEEK = struct.Struct("<d")
_VERDICT_BYTES: Final = 1_024
BODY_LIMIT: Final = max(_SHOWN.size + SCREEN_BYTES, _PIECE.size + PIECE_BYTES, _VERDICT_BYTES)
_SAID = 240


class Kind(IntEnum):
    """Of a word. To the emulator: PIECE, LEAVE, SEEK. From it: VERDICT, SHOWN."""

    PIECE = 1
    LEAVE = 2
    SEEK = 3
    VERDICT = 4
    SHOWN = 5


class Word(NamedTuple):
    """One word."""

    kind: int
    lane: int
    body: bytes = b""

    def pack(self) -> bytes:
        """Its bytes; ValueError when the body is too long."""
        if len(self.body) > BODY_LIMIT:
            raise ValueError(f"a word of {len(self.body)} bytes")
        return _HEAD.pack(self.kind, self.lane, len(self.body)) + self.body


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the emulator makes of a lane: it has piece ``index`` of ``chain``; what it needs.

    ``inputs``: the rest of the chain. ``pictures``: pictures meanwhile. ``never``: nothing of this
    learner can be played here. ``said``: why, for the person.
    """

    chain: int
    index: int
    inputs: bool
    pictures: bool
    never: bool = False
    said: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """A frame: so many frames after the beginning of ``chain``, played by the learner at
    ``captured_s`` of this machine's monotonic clock.
    """

    chain: int
    frames: int
    captured_s: float
    pixels: bytes


def piece(lane: int, captured_s: float, one: Piece) -> Word:
    """A piece that arrived, with when it was played, monotonic seconds of this machine."""
    return Word(Kind.PIECE, lane, _PIECE.pack(captured_s) + one.pack())


def read_piece_word(body: bytes) -> tuple[float, Piece]:
    """(captured_s, piece); ValueError."""
    if len(body) < _PIECE.size:
        raise ValueError("a PIECE is torn")
    return _PIECE.unpack_from(body)[0], read_piece(body[_PIECE.size :])


def seek(lane: int, seconds: float) -> Word:
    """Go back (less than 0) or ahead by seconds of the game."""
    return Word(Kind.SEEK, lane, _SEEK.pack(seconds))


def read_seek(body: bytes) -> float:
    """Seconds of a SEEK; ValueError."""
    if len(body) != _SEEK.size:
        raise ValueError("a SEEK has 8 bytes")
    return float(_SEEK.unpack(body)[0])


def verdict(lane: int, one: Verdict) -> Word:
    """What the emulator says of a lane."""
    told = asdict(replace(one, said=one.said[:_SAID]))
    return Word(Kind.VERDICT, lane, json.dumps(told).encode())


def read_verdict(body: bytes) -> Verdict:
    """The verdict; ValueError."""
    try:
        return Verdict(**json.loads(body))
    except TypeError as error:
        raise ValueError("a VERDICT lacks something") from error


def shown(lane: int, one: Shown) -> Word:
    """A frame that is due now."""
    head = _SHOWN.pack(one.chain, one.frames, one.captured_s)
    return Word(Kind.SHOWN, lane, head + one.pixels)


def read_shown(body: bytes) -> Shown:
    """The frame; ValueError."""
    if len(body) != _SHOWN.size + SCREEN_BYTES:
        raise ValueError("a SHOWN is torn")
    chain, frames, captured_s = _SHOWN.unpack_from(body)
    return Shown(chain, frames, captured_s, body[_SHOWN.size :])


class Splitter:
    """Bytes in, whole words out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Word]:
        """The words that are whole with these bytes; ValueError for one that is too long."""
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            kind, lane, length = _HEAD.unpack_from(self._buffer)
            if length > BODY_LIMIT:
                raise ValueError(f"a word announces {length} bytes")
            if len(self._buffer) < _HEAD.size + length:
                return
            body = bytes(self._buffer[_HEAD.size : _HEAD.size + length])
            del self._buffer[: _HEAD.size + length]
            yield Word(kind, lane, body)
