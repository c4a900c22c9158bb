"""Pure. Packs half a second of a learner's play as messages, and as the bytes of a spool file.

A segment is made of the wire's own messages: HELLO (who writes, names of maps), TELEM (how far each
agent is), FRAMEs (the first of each agent is whole, the others differ from the one before). A relay
that is connected gets them one by one, as they come about. A spool file holds them all behind
magic, version, a sequence number, the body's length and a CRC-32 over both: a reader takes all of
it or nothing, so a half-written file is merely "not yet".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from Daddy.core.shared_types import AgentReport
from Daddy.streaming.protocol import frame_codec
from Daddy.streaming.protocol.framing import (
    BODY_LIMIT,
    HEADER,
    Kind,
    Message,
    ProtocolError,
    Splitter,
    clean,
    from_json,
    pack,
    to_json,
)
from Daddy.streaming.protocol.messages import (
    MAX_MAPS,
    Frame,
    Row,
    pack_rows,
    read_frame,
    read_maps,
    read_rows,
    row_of,
)

MAGIC = b"DSEG"
VERSION = 1
HEAD = struct.Struct("<4sHHQII")
"""magic, version, reserved, sequence, body length, CRC-32 of sequence, length and body."""
_SUMMED = struct.Struct("<QI")
SEGMENT_LIMIT = 64 * 1024
"""Bytes of one file; a busy second of four agents is about 20 kB."""
_HEAD_LIMIT = 2 * HEADER.size + BODY_LIMIT[Kind.HELLO] + BODY_LIMIT[Kind.TELEM]
MAX_AGENTS = 512
DAMAGED = (
    ProtocolError,
    frame_codec.CodecError,
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    struct.error,
)
"""Raised by messages that are no segment's."""
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
    """One spool file, or a connected job's words since the last time (``direct``)."""

    sequence: int
    peer: str
    host: str
    job: str
    incarnation: str
    sent_ms: int
    rows: tuple[Row, ...]
    maps: Mapping[int, str]
    pictures: tuple[Picture, ...] = field(repr=False, default=())
    direct: bool = False


@dataclass(frozen=True, slots=True)
class Writer:
    """A writer: peer name, host, job and the eight digits of this process start."""

    peer: str
    host: str
    job: str
    incarnation: str


class Told(NamedTuple):
    """Reports of one writer as the heads of its segments have them."""

    who: Mapping[str, object]
    rows: Message


def pack_reports(writer: Writer, reports: Sequence[AgentReport]) -> Told:
    """Once for every head that says them: who writes and on which maps, how far each agent is.

    Names of maps that have no room in a HELLO are left out.
    """
    reports, maps = reports[:MAX_AGENTS], dict[str, str]()
    who: dict[str, object] = {
        "peer": writer.peer,
        "host": clean(writer.host),
        "job": clean(writer.job, 32),
        "incarnation": writer.incarnation,
        "sent_ms": 2**63,  # as long as it may be: each head has its own
        "maps": maps,
    }
    room = BODY_LIMIT[Kind.HELLO] - len(to_json(who))
    named = {str(one.map_id): clean(one.map_name, _NAME_LENGTH) for one in reports}
    for number, name in islice(named.items(), MAX_MAPS):
        size = len(to_json({number: name})) - 1  # two braces less, a comma more
        if size <= room:
            maps[number], room = name, room - size
    return Told(who, Message(Kind.TELEM, pack_rows(row_of(one) for one in reports)))


def pack_head(told: Told, sent_ms: int) -> list[Message]:
    """The head of a segment, at ``sent_ms`` of the writer's monotonic clock."""
    return [Message(Kind.HELLO, to_json({**told.who, "sent_ms": sent_ms})), told.rows]


def seal(sequence: int, messages: Sequence[Message]) -> bytes:
    """The bytes of a spool file."""
    body = b"".join(map(pack, messages))
    summed = zlib.crc32(_SUMMED.pack(sequence, len(body)) + body)
    return HEAD.pack(MAGIC, VERSION, 0, sequence, len(body), summed) + body


class Packer:
    """Pictures of one segment as FRAMEs, as long as there is room in it."""

    def __init__(self) -> None:
        self._room = SEGMENT_LIMIT - HEAD.size - _HEAD_LIMIT
        self._last: dict[int, tuple[int, bytes]] = {}

    def pack(self, picture: Picture) -> Message | None:
        """The picture's FRAME; None when the segment is full."""
        seq, base = self._last.get(picture.agent, (0, None))
        tiles = frame_codec.to_tiles(picture.pixels)
        data = frame_codec.deflate(tiles, base)
        facts = (picture.step, picture.captured_ms, picture.episode, data)
        message = Message(Kind.FRAME, Frame(seq + 1, seq, *facts).pack(), stream=picture.agent)
        room = self._room - HEADER.size - len(message.body)
        if room < 0:
            return None
        self._room = room
        self._last[picture.agent] = (seq + 1, tiles)
        return message


def unseal(data: bytes) -> tuple[int, bytes]:
    """Sequence number and body of a complete segment; (0, b"") for any other bytes."""
    if len(data) >= HEAD.size:
        magic, version, _, sequence, length, summed = HEAD.unpack_from(data)
        body = data[HEAD.size : HEAD.size + length]
        whole = (magic, version, len(body)) == (MAGIC, VERSION, length)
        if whole and zlib.crc32(_SUMMED.pack(sequence, length) + body) == summed:
            return sequence, body
    return 0, b""


def read_segment(data: bytes) -> Segment | None:
    """Everything a segment says; None when it is not complete, or any part of it is damaged."""
    sequence, body = unseal(data)
    splitter, reassembly = Splitter(), Reassembly()
    splitter.feed(body)
    try:
        while (message := splitter.next()) is not None:
            reassembly.hear(message)
    except DAMAGED:
        return None
    said = reassembly.take()
    return None if said is None else replace(said, sequence=sequence)


class Reassembly:
    """Puts together again what one writer says; any of ``DAMAGED`` means that it is none."""

    def __init__(self) -> None:
        self._said: Segment | None = None
        self._rows: list[Row] = []
        self._pictures: list[Picture] = []
        self._last: dict[int, bytes] = {}

    def hear(self, message: Message) -> None:
        """One message, in the order in which they were packed; unknown kinds are passed over."""
        if message.kind == Kind.HELLO:
            self._said = _read_identity(from_json(message.body))
            self._last.clear()
        elif message.kind == Kind.TELEM:
            self._rows = read_rows(message.body)
        elif message.kind == Kind.FRAME:
            self._pictures.append(self._picture(message.stream, read_frame(message.body)))

    def _picture(self, agent: int, frame: Frame) -> Picture:
        base = self._last[agent] if frame.base else None
        if len(self._last) >= MAX_AGENTS and agent not in self._last:
            raise ProtocolError("pictures of too many agents")
        tiles = self._last[agent] = frame_codec.inflate(frame.data, base)
        pixels = frame_codec.from_tiles(tiles)
        return Picture(agent, frame.step, frame.episode, frame.captured_ms, pixels)

    def take(self) -> Segment | None:
        """The words since the last time; None when that is nothing, or nobody's."""
        if self._said is None or not (self._rows or self._pictures):
            return None
        said = replace(self._said, rows=tuple(self._rows), pictures=tuple(self._pictures))
        self._rows, self._pictures = [], []
        return said


def _read_identity(identity: Mapping[str, object]) -> Segment:
    return Segment(
        sequence=0,
        peer=str(identity["peer"]),
        host=clean(identity["host"]),
        job=clean(identity["job"], 32),
        incarnation=clean(identity["incarnation"], 8),
        sent_ms=int(str(identity["sent_ms"])),
        rows=(),
        maps=read_maps(identity["maps"]),
    )
