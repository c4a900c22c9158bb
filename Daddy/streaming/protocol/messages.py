"""Pure. Packs and reads the bodies of messages: status, pictures, telemetry, subscriptions.

Each body is a fixed struct or a bounded JSON object that is read field by field; no dtype, shape or
code is ever taken from the wire.
"""

import math
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import Any

from Daddy.core.errors import UsageError
from Daddy.core.name_validation import PEER, check_peer
from Daddy.core.shared_types import AgentReport
from Daddy.streaming.protocol.framing import (
    BODY_LIMIT,
    MessageKind,
    ProtocolError,
    clean_text,
    pack_json,
    unpack_json,
)


@dataclass(frozen=True, slots=True)
class Peer:
    """Describes a process that plays: name, host, job, and seconds since its last report."""

    name: str
    host: str
    job: str
    silent_s: float = 0.0


MAX_PEERS = 32
MAX_MAPS = 64


@dataclass(frozen=True, slots=True)
class Status:
    """Describes the state of a run; sent once a second, and shown in the window's header."""

    run: str = ""
    workload: str = ""
    host: str = ""
    via: str = ""
    agents: int = 0
    steps: int = 0
    steps_per_s: float = 0.0
    best: int = 0
    delay_s: float = 0.0
    peers: tuple[Peer, ...] = ()
    maps: Mapping[int, str] = field(default_factory=dict)
    direct: tuple[str, ...] = ()
    """Peers that the relay is connected to; it reads the others' reports from the spool."""

    def to_body(self) -> bytes:
        """Return the body of a STATUS; lists that do not fit are shortened."""
        peers, maps = MAX_PEERS, MAX_MAPS
        while len(body := self._pack(peers, maps)) > BODY_LIMIT[MessageKind.STATUS]:
            peers, maps = (peers, maps // 2) if maps else (peers // 2, 0)
        return body

    def _pack(self, most_peers: int, most_maps: int) -> bytes:
        peers = [[p.name, p.host, p.job, round(p.silent_s, 1)] for p in self.peers[:most_peers]]
        lists = {
            "steps_per_s": round(self.steps_per_s, 1),
            "delay_s": round(self.delay_s, 2),
            "peers": peers,
            "direct": list(self.direct[:most_peers]),
            "maps": {str(k): v for k, v in sorted(self.maps.items())[:most_maps]},
        }
        return pack_json({name: lists.get(name, getattr(self, name)) for name in self.__slots__})


def _peers(raw: Any) -> tuple[Peer, ...]:
    return tuple(
        Peer(clean_text(name, 31), clean_text(host), clean_text(job, 32), finite_number(silent))
        for name, host, job, silent in list(raw)[:MAX_PEERS]
    )


def read_maps(raw: Any) -> dict[int, str]:
    """Return the names of maps by number, at most ``MAX_MAPS``."""
    return {int(key): clean_text(name, 40) for key, name in list(raw.items())[:MAX_MAPS]}


def finite_number(value: Any) -> float:
    """Return a float, 0 for an infinity or a NaN; ValueError if ``value`` is no number."""
    number = float(value)
    return number if math.isfinite(number) else 0.0


_STATUS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("run", "workload", "host", "via"), clean_text),
    **dict.fromkeys(("agents", "steps", "best"), lambda raw: _within(raw, 2**63 - 1)),
    **dict.fromkeys(("steps_per_s", "delay_s"), finite_number),
    "peers": _peers,
    "maps": read_maps,
    "direct": lambda raw: tuple(clean_text(name, 31) for name in list(raw)[:MAX_PEERS]),
}
"""The function that reads each field of a STATUS."""


def read_status(body: bytes) -> Status:
    """Return a STATUS with typed, bounded, printable fields; ProtocolError for a wrong one."""
    raw = unpack_json(body)
    try:
        return Status(**{name: read(raw[name]) for name, read in _STATUS.items() if name in raw})
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ProtocolError(f"a STATUS has a wrong field: {error}") from error


FORMAT_TILES = 1
"""2 bits a pixel in tile order, raw deflate, the base picture as preset dictionary."""
FORMAT_TILING = 2
"""Tile numbers into a table of the tiles of the base and of the ``more`` pictures before it."""
FRAME_HEAD = struct.Struct("<IIIIBBH")
ROW = struct.Struct("<HHHHBBHhfIIHHH")
"""stream, peer, agent, place, badges, level, story flags, map, return, episode, step, age (0.1 s),
x + 1 and y + 1; an unknown x or y is sent as 0."""
MAX_ROWS = BODY_LIMIT[MessageKind.TELEM] // ROW.size
_ACK = struct.Struct("<I")
_STAMPS = struct.Struct("<QQ")
_U8, _U16, _U32 = 0xFF, 0xFFFF, 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Frame:
    """Holds a compressed picture: a delta against picture ``base``, or whole if ``base`` is 0.

    ``seq`` counts from 1 per stream; ``captured_ms`` is the sender's monotonic clock modulo 2^32.
    """

    seq: int
    base: int
    step: int
    captured_ms: int
    episode: int
    data: bytes
    format: int = FORMAT_TILES
    more: int = 0

    def to_body(self) -> bytes:
        step, captured_ms, episode = self.step & _U32, self.captured_ms & _U32, self.episode & _U16
        head = (self.seq, self.base, step, captured_ms, self.format, self.more, episode)
        return FRAME_HEAD.pack(*head) + self.data


def read_frame(body: bytes) -> Frame:
    """Return the frame in a FRAME's body; ProtocolError when it is shorter than its head."""
    if len(body) < FRAME_HEAD.size:
        raise ProtocolError("a FRAME is shorter than its head")
    seq, base, step, captured, form, more, episode = FRAME_HEAD.unpack_from(body)
    return Frame(seq, base, step, captured, episode, body[FRAME_HEAD.size :], form, more)


@dataclass(frozen=True, slots=True)
class TelemetryRow:
    """Holds one agent's telemetry, in the order of the wire.

    ``stream`` and ``place`` (from 1) are 0 for an agent that is not featured, ``peer`` is an index
    into the STATUS's peers, ``age_s`` is the age of the report when the row was sent.
    """

    stream: int
    peer: int
    agent: int
    place: int
    badges: int
    level: int
    story_flags: int
    map_id: int
    episode_return: float
    episode: int
    step: int
    age_s: float = 0.0
    x: int = -1
    y: int = -1

    @property
    def score(self) -> int:
        """Badges plus story flags, the first criterion for featuring an agent."""
        return self.badges + self.story_flags


_values = attrgetter(*TelemetryRow.__slots__)
_MOST = {
    "agent": _U16,
    "badges": _U8,
    "level": _U8,
    "story_flags": _U16,
    "map_id": 0x7FFF,
    "episode": _U32,
    "step": _U32,
}
"""The greatest number that each field of a row can hold."""


def row_from_report(report: AgentReport) -> TelemetryRow:
    """Return a learner's report as a row, every field limited to the wire's range."""
    return TelemetryRow(
        **{name: _within(getattr(report, name), most) for name, most in _MOST.items()},
        stream=0,
        peer=0,
        place=0,
        episode_return=max(-1e9, min(1e9, finite_number(report.episode_return))),
        x=_within(report.x + 1, _U16) - 1,
        y=_within(report.y + 1, _U16) - 1,
    )


def _within(value: Any, most: int) -> int:
    return max(0, min(most, int(value)))


def pack_rows(rows: Iterable[TelemetryRow]) -> bytes:
    """Return the body of a TELEM with the first ``MAX_ROWS`` rows."""
    packed = []
    for row in islice(rows, MAX_ROWS):
        *first, age_s, x, y = _values(row)
        packed.append(ROW.pack(*first, _within(round(age_s * 10), _U16), x + 1, y + 1))
    return b"".join(packed)


def read_rows(body: bytes) -> list[TelemetryRow]:
    """Return the rows of a TELEM. ProtocolError unless the body consists of whole rows."""
    if len(body) % ROW.size:
        raise ProtocolError("a TELEM does not consist of whole rows")
    return [_read_row(*fields) for fields in ROW.iter_unpack(body)]


def _read_row(*fields: Any) -> TelemetryRow:
    *first, episode_return, episode, step, age, x, y = fields
    total = finite_number(episode_return)
    return TelemetryRow(*(*first, total, episode, step, age / 10, x - 1, y - 1))


def pack_ack(seq: int) -> bytes:
    """Return the body of an ACK: the newest sequence number that was decoded."""
    return _ACK.pack(seq)


def read_ack(body: bytes) -> int:
    """Return the sequence number of an ACK."""
    return _unpack(_ACK, body, "an ACK")[0]


def pack_stamps(first_ms: int, second_ms: int = 0) -> bytes:
    """Return the body of PING (own clock, 0) or PONG (the PING's stamp, own clock), ms."""
    return _STAMPS.pack(first_ms, second_ms)


def read_stamps(body: bytes) -> tuple[int, ...]:
    """Return both stamps of a PING or PONG, ms."""
    return _unpack(_STAMPS, body, "a PING or PONG")


def _unpack(layout: struct.Struct, body: bytes, name: str) -> tuple[int, ...]:
    if len(body) != layout.size:
        raise ProtocolError(f"{name} has {len(body)} bytes instead of {layout.size}")
    return layout.unpack(body)


MAX_TOP_K = 16
MAX_FPS = 60.0
MAX_PINS = 8
Pin = tuple[str, int]
"""A peer's name and an agent's index in it, which stay the same when the slot's job changes."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """Holds a viewer's request: number of agents, pictures of each a second, pinned agents."""

    top_k: int
    fps: float
    pins: tuple[Pin, ...] = ()

    def to_body(self) -> bytes:
        """Return the body of a SUBSCRIBE; the last pins are left out if they do not fit."""
        facts: dict[str, object] = {"k": self.top_k, "fps": self.fps}
        for count in range(min(MAX_PINS, len(self.pins)), 0, -1):
            body = pack_json({**facts, "pins": [list(pin) for pin in self.pins[:count]]})
            if len(body) <= BODY_LIMIT[MessageKind.SUBSCRIBE]:
                return body
        return pack_json(facts)


def read_subscription(body: bytes) -> Subscription:
    """Return a SUBSCRIBE, limited to 1-16 agents, 1-60 pictures/s, 8 pins. Or ProtocolError."""
    raw = unpack_json(body)
    try:
        top_k, fps = int(raw.get("k", 2)), finite_number(raw.get("fps", MAX_FPS))
        names = list(raw.get("pins", []))[:MAX_PINS]
        pins = tuple((check_peer(str(peer)), _within(agent, _U16)) for peer, agent in names)
    except (TypeError, ValueError, OverflowError, UsageError) as error:
        raise ProtocolError("a SUBSCRIBE has a wrong field") from error
    return Subscription(max(1, min(MAX_TOP_K, top_k)), max(1.0, min(MAX_FPS, fps)), pins)


def to_pins(names: Iterable[str]) -> tuple[Pin, ...]:
    """Return pins for agents named as on screen (``slot-0/3``); skip other names."""
    split = (name.rpartition("/") for name in names)
    return tuple(
        (peer, int(agent)) for peer, _, agent in split if PEER.fullmatch(peer) and agent.isdecimal()
    )
