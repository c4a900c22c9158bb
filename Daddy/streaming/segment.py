"""Pure: one second of a learner's play as the bytes of a spool file.

A segment begins with magic, version, a sequence number, the body's length and a CRC-32 over both;
the body is made of the wire's own messages: HELLO (who writes, names of maps), TELEM (how far each
agent is), PLAYs (pieces of what an agent plays; ``stream`` is the agent), FRAMEs (the first of each
agent is whole, the others differ from the one before). A reader takes all of it or nothing, so a
half-written file is merely "not yet".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from Daddy.core.vocabulary import AgentReport
from Daddy.streaming import codec
from Daddy.streaming.messages import Frame, Row, pack_rows, read_frame, read_rows, row_of
from Daddy.streaming.outbox import Handed
from Daddy.streaming.protocol import (
    BODY_LIMIT,
    Kind,
    Message,
    ProtocolError,
    Splitter,
    clean,
    from_json,
    pack,
    to_json,
)
from Daddy.streaming.status import MAX_MAPS, read_maps

MAGIC = b"DSEG"
VERSION = 1
HEAD = struct.Struct("<4sHHQII")
"""magic, version, reserved, sequence, body length, CRC-32 of sequence, length and body."""
_SUMMED = struct.Struct("<QI")
SEGMENT_LIMIT = 64 * 1024
"""Bytes of one file; a busy second of four agents is about 20 kB."""
PIECES_LIMIT = 24 * 1024
"""Of those, bytes of pieces of play."""
_CAPTURED = struct.Struct("<I")
MAX_AGENTS = 512
_NAME_LENGTH = 40


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture that was taken: row-major, at ``captured_ms`` of the writer's monotonic clock."""

    agent: int
    step: int
    episode: int
    captured_ms: int
    pixels: bytes


@dataclass(frozen=True, slots=True)
class Segment:
    """What one spool file says."""

    sequence: int
    peer: str
    host: str
    job: str
    incarnation: str
    sent_ms: int
    rows: tuple[Row, ...]
    maps: Mapping[int, str]
    pictures: tuple[Picture, ...] = field(repr=False, default=())
    pieces: tuple[Handed, ...] = field(repr=False, default=())


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes: peer name, host, job and the eight digits of this process start."""

    peer: str
    host: str
    job: str
    incarnation: str


def pack_segment(
    sequence: int,
    writer: Writer,
    sent_ms: int,
    reports: Sequence[AgentReport],
    pictures: Sequence[Picture],
    pieces: Sequence[Handed] = (),
) -> bytes:
    """A segment of at most ``SEGMENT_LIMIT`` bytes: pictures that do not fit are left out.

    ``pieces`` are at most ``PIECES_LIMIT`` bytes.
    """
    reports = reports[:MAX_AGENTS]
    body = pack(Message(Kind.HELLO, _identity(writer, sent_ms, reports)))
    body += pack(Message(Kind.TELEM, pack_rows(row_of(one) for one in reports)))
    body += b"".join(_pack_piece(one) for one in pieces)
    body += _pack_pictures(pictures, SEGMENT_LIMIT - HEAD.size - len(body))
    summed = zlib.crc32(_SUMMED.pack(sequence, len(body)) + body)
    return HEAD.pack(MAGIC, VERSION, 0, sequence, len(body), summed) + body


def _identity(writer: Writer, sent_ms: int, reports: Sequence[AgentReport]) -> bytes:
    identity: dict[str, object] = {
        "peer": writer.peer,
        "host": clean(writer.host),
        "job": clean(writer.job, 32),
        "incarnation": writer.incarnation,
        "sent_ms": sent_ms,
        "maps": {},
    }
    maps: dict[str, str] = {}
    for report in reports:
        if len(maps) == MAX_MAPS:
            break
        named = {**maps, str(report.map_id): clean(report.map_name, _NAME_LENGTH)}
        if len(to_json({**identity, "maps": named})) <= BODY_LIMIT[Kind.HELLO]:
            maps = named
    return to_json({**identity, "maps": maps})


def _pack_piece(one: Handed) -> bytes:
    body = _CAPTURED.pack(one.captured_ms % 2**32) + one.piece
    return pack(Message(Kind.PLAY, body, stream=one.agent))


def _pack_pictures(pictures: Sequence[Picture], room: int) -> bytes:
    packed: list[bytes] = []
    last: dict[int, tuple[int, bytes]] = {}
    for picture in pictures:
        seq, base = last.get(picture.agent, (0, None))
        tiles = codec.to_tiles(picture.pixels)
        frame = Frame(
            seq + 1,
            seq,
            picture.step,
            picture.captured_ms,
            picture.episode,
            codec.deflate(tiles, base),
        )
        data = pack(Message(Kind.FRAME, frame.pack(), stream=picture.agent))
        if len(data) > room:
            break
        room -= len(data)
        packed.append(data)
        last[picture.agent] = (seq + 1, tiles)
    return b"".join(packed)


def sequence_of(data: bytes) -> int | None:
    """Sequence number of a complete segment; None when it is torn, damaged or another version."""
    if len(data) < HEAD.size:
        return None
    magic, version, _, sequence, length, summed = HEAD.unpack_from(data)
    body = data[HEAD.size : HEAD.size + length]
    if magic != MAGIC or version != VERSION or len(body) != length:
        return None
    return sequence if zlib.crc32(_SUMMED.pack(sequence, length) + body) == summed else None


def read_segment(data: bytes) -> Segment | None:
    """Everything a segment says, or None when :func:`sequence_of` or any part of it says no."""
    sequence = sequence_of(data)
    if sequence is None:
        return None
    length = HEAD.unpack_from(data)[4]
    try:
        return _read_body(sequence, data[HEAD.size : HEAD.size + length])
    except (ProtocolError, codec.CodecError, KeyError, TypeError, ValueError, AttributeError):
        return None
    except struct.error:
        return None


def _read_body(sequence: int, body: bytes) -> Segment:
    splitter = Splitter()
    splitter.feed(body)
    identity: dict[str, object] = {}
    rows: list[Row] = []
    pictures: list[Picture] = []
    pieces: list[Handed] = []
    last: dict[int, bytes] = {}
    while (message := splitter.next()) is not None:
        if message.kind == Kind.HELLO:
            identity = from_json(message.body)
        elif message.kind == Kind.TELEM:
            rows = read_rows(message.body)
        elif message.kind == Kind.FRAME:
            pictures.append(_read_picture(message, last))
        elif message.kind == Kind.PLAY:
            captured_ms = _CAPTURED.unpack_from(message.body)[0]
            pieces.append(Handed(message.stream, captured_ms, message.body[_CAPTURED.size :]))
    return Segment(
        sequence=sequence,
        peer=str(identity["peer"]),
        host=clean(identity["host"]),
        job=clean(identity["job"], 32),
        incarnation=clean(identity["incarnation"], 8),
        sent_ms=int(str(identity["sent_ms"])),
        rows=tuple(rows),
        maps=read_maps(identity["maps"]),
        pictures=tuple(pictures),
        pieces=tuple(pieces),
    )


def _read_picture(message: Message, last: dict[int, bytes]) -> Picture:
    frame = read_frame(message.body)
    base = last[message.stream] if frame.base else None
    tiles = codec.inflate(frame.data, base)
    last[message.stream] = tiles
    return Picture(
        message.stream, frame.step, frame.episode, frame.captured_ms, codec.from_tiles(tiles)
    )
