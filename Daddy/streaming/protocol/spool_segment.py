"""Pure. Packs half a second of a learner's play into messages, and these into a spool file.

A segment consists of wire messages: HELLO (the writer, names of maps), TELEM (each agent's state)
and FRAMEs (the first of each agent is whole, each later one a delta against the one before). A
connected relay receives the messages one by one. A spool file holds all of them behind magic,
version, sequence number, body length and a CRC-32 of number, length and body. A reader takes a
complete file or nothing, so it ignores a half-written file and reads it again later.
"""

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from Daddy.core.shared_types import AgentReport
from Daddy.streaming.protocol import frame_codec, framing
from Daddy.streaming.protocol.messages import (
    MAX_MAPS,
    Frame,
    TelemetryRow,
    pack_rows,
    read_frame,
    read_maps,
    read_rows,
    row_from_report,
)

MAGIC = b"DSEG"
VERSION = 1
HEAD = struct.Struct("<4sHHQII")
"""magic, version, reserved, sequence, body length, CRC-32 of sequence, length and body."""
_SUMMED = struct.Struct("<QI")
SEGMENT_LIMIT = 64 * 1024
"""Bytes of a spool file; a busy second of four agents is about 20 kB."""
_HEAD_LIMIT = (
    2 * framing.HEADER.size
    + framing.BODY_LIMIT[framing.MessageKind.HELLO]
    + framing.BODY_LIMIT[framing.MessageKind.TELEM]
)
MAX_AGENTS = 512
DAMAGED = (
    *(framing.ProtocolError, frame_codec.CodecError, struct.error),
    *(KeyError, TypeError, ValueError, AttributeError),
)
"""Errors that messages raise when they are no valid segment."""
_NAME_LENGTH = 40


@dataclass(frozen=True, slots=True)
class CapturedPicture:
    """Holds a row-major picture, taken at ``captured_ms`` of the writer's monotonic clock."""

    agent: int
    step: int
    episode: int
    captured_ms: int
    pixels: bytes


@dataclass(frozen=True, slots=True)
class Segment:
    """Holds the content of a spool file, or messages of a connected job."""

    sequence: int
    peer: str
    host: str
    job: str
    incarnation: str
    sent_ms: int
    rows: tuple[TelemetryRow, ...]
    maps: Mapping[int, str]
    pictures: tuple[CapturedPicture, ...] = field(repr=False, default=())


@dataclass(frozen=True, slots=True)
class WriterIdentity:
    """Identifies a writer: peer name, host, job and the eight hex digits of its process start."""

    peer: str
    host: str
    job: str
    incarnation: str


class PackedReports(NamedTuple):
    """Holds one writer's reports, packed for the first messages of its segments."""

    writer: Mapping[str, object]
    rows: framing.Message


def pack_reports(writer: WriterIdentity, reports: Sequence[AgentReport]) -> PackedReports:
    """Pack reports once for all segments that repeat them: writer, map names, telemetry rows.

    Map names that do not fit into a HELLO are left out.
    """
    reports, maps = reports[:MAX_AGENTS], dict[str, str]()
    identity: dict[str, object] = {
        "peer": writer.peer,
        "host": framing.clean_text(writer.host),
        "job": framing.clean_text(writer.job, 32),
        "incarnation": writer.incarnation,
        "sent_ms": 2**63,  # the longest possible: each head sets its own
        "maps": maps,
    }
    room = framing.BODY_LIMIT[framing.MessageKind.HELLO] - len(framing.pack_json(identity))
    names = {
        str(report.map_id): framing.clean_text(report.map_name, _NAME_LENGTH) for report in reports
    }
    for number, name in islice(names.items(), MAX_MAPS):
        size = len(framing.pack_json({number: name})) - 1  # two braces less, a comma more
        if size <= room:
            maps[number], room = name, room - size
    rows = pack_rows(row_from_report(report) for report in reports)
    return PackedReports(identity, framing.Message(framing.MessageKind.TELEM, rows))


def pack_head(packed: PackedReports, sent_ms: int) -> list[framing.Message]:
    """Return a segment's HELLO and TELEM, sent at ``sent_ms`` (writer's monotonic ms)."""
    hello = framing.pack_json({**packed.writer, "sent_ms": sent_ms})
    return [framing.Message(framing.MessageKind.HELLO, hello), packed.rows]


def pack_file(sequence: int, messages: Sequence[framing.Message]) -> bytes:
    """Return the bytes of a spool file with these messages."""
    body = b"".join(map(framing.pack_message, messages))
    checksum = zlib.crc32(_SUMMED.pack(sequence, len(body)) + body)
    return HEAD.pack(MAGIC, VERSION, 0, sequence, len(body), checksum) + body


class FramePacker:
    """Packs the pictures of one segment as FRAMEs until the segment is full."""

    def __init__(self) -> None:
        self._room = SEGMENT_LIMIT - HEAD.size - _HEAD_LIMIT
        self._last: dict[int, tuple[int, bytes]] = {}

    def pack_frame(self, picture: CapturedPicture) -> framing.Message | None:
        """Return the picture's FRAME; None when the segment is full."""
        seq, base = self._last.get(picture.agent, (0, None))
        tiles = frame_codec.to_tiles(picture.pixels)
        data = frame_codec.deflate(tiles, base)
        frame = Frame(seq + 1, seq, picture.step, picture.captured_ms, picture.episode, data)
        message = framing.Message(framing.MessageKind.FRAME, frame.to_body(), stream=picture.agent)
        room = self._room - framing.HEADER.size - len(message.body)
        if room < 0:
            return None
        self._room = room
        self._last[picture.agent] = (seq + 1, tiles)
        return message


def unpack_file(data: bytes) -> tuple[int, bytes]:
    """Return sequence number and body of a complete segment; (0, b"") for any other bytes."""
    if len(data) >= HEAD.size:
        magic, version, _, sequence, length, checksum = HEAD.unpack_from(data)
        body = data[HEAD.size : HEAD.size + length]
        whole = (magic, version, len(body)) == (MAGIC, VERSION, length)
        if whole and zlib.crc32(_SUMMED.pack(sequence, length) + body) == checksum:
            return sequence, body
    return 0, b""


def read_segment(data: bytes) -> Segment | None:
    """Return the segment in a spool file; None when it is incomplete or damaged."""
    sequence, body = unpack_file(data)
    splitter, assembler = framing.MessageSplitter(), SegmentAssembler()
    splitter.feed(body)
    try:
        while (message := splitter.next_message()) is not None:
            assembler.add_message(message)
    except DAMAGED:
        return None
    segment = assembler.take_segment()
    return None if segment is None else replace(segment, sequence=sequence)


class SegmentAssembler:
    """Assembles one writer's messages into segments; invalid ones raise one of ``DAMAGED``."""

    def __init__(self) -> None:
        self._identity: Segment | None = None
        self._rows: list[TelemetryRow] = []
        self._pictures: list[CapturedPicture] = []
        self._last: dict[int, bytes] = {}

    def add_message(self, message: framing.Message) -> None:
        """Add a message, in the order of packing; ignore unknown kinds."""
        if message.kind == framing.MessageKind.HELLO:
            self._identity = _read_identity(framing.unpack_json(message.body))
            self._last.clear()
        elif message.kind == framing.MessageKind.TELEM:
            self._rows = read_rows(message.body)
        elif message.kind == framing.MessageKind.FRAME:
            self._pictures.append(self._picture(message.stream, read_frame(message.body)))

    def _picture(self, agent: int, frame: Frame) -> CapturedPicture:
        base = self._last[agent] if frame.base else None
        if len(self._last) >= MAX_AGENTS and agent not in self._last:
            raise framing.ProtocolError(f"a segment has pictures of over {MAX_AGENTS} agents")
        tiles = self._last[agent] = frame_codec.inflate(frame.data, base)
        pixels = frame_codec.from_tiles(tiles)
        return CapturedPicture(agent, frame.step, frame.episode, frame.captured_ms, pixels)

    def take_segment(self) -> Segment | None:
        """Return rows and pictures added since the last call; None without any, or no HELLO."""
        if self._identity is None or not (self._rows or self._pictures):
            return None
        segment = replace(self._identity, rows=tuple(self._rows), pictures=tuple(self._pictures))
        self._rows, self._pictures = [], []
        return segment


def _read_identity(identity: Mapping[str, object]) -> Segment:
    return Segment(
        sequence=0,
        peer=str(identity["peer"]),
        host=framing.clean_text(identity["host"]),
        job=framing.clean_text(identity["job"], 32),
        incarnation=framing.clean_text(identity["incarnation"], 8),
        sent_ms=int(str(identity["sent_ms"])),
        rows=(),
        maps=read_maps(identity["maps"]),
    )
