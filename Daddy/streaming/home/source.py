"""Pure: what each relay has told, and the scene that comes of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from Daddy.streaming.home.history import NOWHERE, History
from Daddy.streaming.home.rate import Rate
from Daddy.streaming.home.scene import STALE_S, Panel, Scene
from Daddy.streaming.wire.flow import Receiver as Decoder
from Daddy.streaming.wire.messages import (
    MAX_TOP_K,
    Row,
    ack,
    read_frame,
    read_rows,
    read_stamps,
    stamps,
)
from Daddy.streaming.wire.protocol import BODY_LIMIT, Kind, Message, ProtocolError, Reason, clean
from Daddy.streaming.wire.status import Peer, Status, read_status

MAX_STREAMS = 32
MAX_NAMES = 512
"""Agents whose pictures are counted by name: as many as a TELEM has rows."""
_NEXT_UP = 6
_RETURNS = 120
_NEED_KEYS, _NEED_KEYS_S = 3, 10.0
_OURS = (Kind.HELLO, Kind.AUTH, Kind.ACK, Kind.NEED_KEY, Kind.SUBSCRIBE)


@dataclass
class Stream:
    """Everything received of one stream number."""

    decoder: Decoder = field(default_factory=Decoder)
    pixels: bytes | None = None
    frames: int = 0
    size: int = 0
    received: float = 0.0
    rate: Rate = field(default_factory=Rate)
    captured_ms: int = 0
    returns: deque[float] = field(default_factory=lambda: deque(maxlen=_RETURNS))


_MISSING = Peer("?", "?", "?")


class Source:
    """One authenticated relay. ``owner`` is the program at the other end of the socket."""

    def __init__(self, owner: str | None) -> None:
        self._owner = owner
        self.status: Status | None = None
        self.rows: tuple[Row, ...] = ()
        self.streams: dict[int, Stream] = {}
        self._outgoing: dict[int, tuple[Row, Stream]] = {}
        self.totals: dict[str, int] = {}
        self.history = History()
        self._need_keys: deque[float] = deque(maxlen=_NEED_KEYS)
        self._offset_ms: float | None = None

    @property
    def transport(self) -> str:
        """What carried the pictures here: seen where it can be seen, else as the relay says."""
        if self._owner is None:
            return self.status.via if self.status else "unknown"
        return "ssh-R" if self._owner.startswith("ssh") else "spool"

    def hear(self, message: Message, now: float) -> tuple[list[Message], str]:
        """Take a message over; returns answers and a sentence for the person, if any."""
        if message.kind == Kind.FRAME:
            return self._frame(message, now), ""
        if message.kind == Kind.TELEM:
            return [], self._telemetry(read_rows(message.body))
        if message.kind == Kind.STATUS:
            self.status = read_status(message.body)
        elif message.kind == Kind.PING:
            return [self._pong(message.body, now)], ""
        elif message.kind == Kind.NOTE:
            return [], clean(message.body.decode(errors="replace"), BODY_LIMIT[Kind.NOTE])
        elif message.kind == Kind.BYE:
            raise ProtocolError("the relay has ended", Reason.DONE)
        elif message.kind in _OURS:
            raise ProtocolError(f"a relay does not send kind {message.kind}")
        return [], ""

    def _pong(self, body: bytes, now: float) -> Message:
        """Answer, and learn how the relay's clock stands: the earliest arrival says it best."""
        theirs, _ = read_stamps(body)
        offset = now * 1000 - theirs
        self._offset_ms = offset if self._offset_ms is None else min(self._offset_ms, offset)
        return Message(Kind.PONG, stamps(theirs, round(now * 1000)))

    def _frame(self, message: Message, now: float) -> list[Message]:
        frame = read_frame(message.body)
        stream = self._stream(message.stream)
        pixels = stream.decoder.decode(frame)
        if pixels is None:
            return [self._ask_key(message.stream, now)]
        stream.pixels, stream.received = pixels, now
        stream.rate.add(now)
        stream.captured_ms = frame.captured_ms
        stream.frames += 1
        stream.size += len(message.body)
        row = next((one for one in self.rows if one.stream == message.stream), None)
        if row:
            count(self.totals, self.name(row), 1)
        return [Message(Kind.ACK, ack(frame.seq), stream=message.stream)]

    def _stream(self, number: int) -> Stream:
        if number not in self.streams:
            while len(self.streams) >= MAX_STREAMS:
                del self.streams[next(iter(self.streams))]
            self.streams[number] = Stream()
        return self.streams[number]

    def _ask_key(self, number: int, now: float) -> Message:
        self._need_keys.append(now)
        if len(self._need_keys) == _NEED_KEYS and now - self._need_keys[0] < _NEED_KEYS_S:
            raise ProtocolError("three pictures in ten seconds could not be decoded")
        return Message(Kind.NEED_KEY, stream=number)

    def _telemetry(self, rows: list[Row]) -> str:
        """Take the rows over; a sentence on what featured agents have just achieved."""
        news = self._news(rows)
        self._keep_outgoing(rows)
        self.rows = tuple(rows)
        self.history.add([(self.name(row), self.place(row), row) for row in rows])
        live = {row.stream: row for row in rows if row.stream}
        for number in [one for one in self.streams if one not in live]:
            del self.streams[number]
        for number, row in live.items():
            self._stream(number).returns.append(row.episode_return)
        return "  ·  ".join(news)

    def _keep_outgoing(self, rows: list[Row]) -> None:
        """Who leaves the stage is shown in its place until the newcomer's first picture is here."""
        staying = {row.stream for row in rows if row.stream}
        for row in self.rows:
            stream = self.streams.get(row.stream)
            shown = row.place <= MAX_TOP_K
            if shown and stream and stream.pixels and row.stream not in staying:
                self._outgoing[row.place] = (row, stream)

    def _news(self, rows: list[Row]) -> list[str]:
        """What featured agents have just achieved."""
        before = {(one.peer, one.agent, one.episode): one for one in self.rows}
        news = []
        for row in rows:
            old = before.get((row.peer, row.agent, row.episode))
            if row.place and old and row.badges > old.badges:
                news.append(f"{self.name(row)} won badge {row.badges}")
            elif row.place and old and row.map_id != old.map_id:
                news.append(f"{self.name(row)} came to {self.place(row)}")
        return news

    def place(self, row: Row) -> str:
        """Name of the map that the agent is on."""
        maps = self.status.maps if self.status else {}
        return maps.get(row.map_id, f"map {row.map_id}")

    def name(self, row: Row) -> str:
        """``slot-0/3``: the agent's name on screen and in events."""
        return f"{self.peer(row).name}/{row.agent}"

    def peer(self, row: Row) -> Peer:
        """Whose agent it is."""
        table = self.status.peers if self.status else ()
        return table[row.peer] if row.peer < len(table) else _MISSING

    def panel(self, row: Row, now: float) -> Panel:
        """One featured agent, ready to draw."""
        stream = self.streams.get(row.stream) or Stream()
        if stream.pixels is None and row.place in self._outgoing:
            before, last = self._outgoing[row.place]
            row, stream = (before, last) if now - last.received <= STALE_S else (row, stream)
        age = self._age(stream, now)
        silent = now - stream.received if stream.pixels else 0.0
        return Panel(
            name=self.name(row),
            peer=self.peer(row),
            row=row,
            map_name=self.place(row),
            pixels=stream.pixels,
            frames=stream.frames,
            bytes_per_frame=stream.size / max(1, stream.frames),
            age_s=age,
            silent_s=max(silent, age) if age > STALE_S else silent,
            returns=tuple(stream.returns),
            per_second=stream.rate.per_second(now),
        )

    def _age(self, stream: Stream, now: float) -> float:
        """Age of the picture, seconds; 0 while the relay's clock is not known."""
        if stream.pixels is None or self._offset_ms is None:
            return 0.0
        captured_here = stream.captured_ms + self._offset_ms % 2**32
        age_ms = (now * 1000 - captured_here) % 2**32
        return 0.0 if age_ms > 2**31 else age_ms / 1000


def count(totals: dict[str, int], name: str, more: int) -> None:
    """Add to the frames of an agent; after ``MAX_NAMES`` names no new one is taken up."""
    if name in totals or len(totals) < MAX_NAMES:
        totals[name] = totals.get(name, 0) + more


def compose(
    sources: Sequence[Source],
    top_k: int,
    now: float,
    notes: tuple[str, ...],
    trouble: str,
    past: Mapping[str, int],
    pinned: Collection[str] = (),
) -> Scene:
    """The best ``top_k`` agents of all relays (places stay put within one relay), the pinned first.

    ``past`` counts frames of connections that have ended.
    """
    panels = [source.panel(row, now) for source in sources for row in source.rows if row.stream]
    if len(sources) > 1:
        panels.sort(
            key=lambda one: (one.name in pinned, one.row.score, one.row.episode_return),
            reverse=True,
        )
    else:
        panels.sort(key=lambda one: one.row.place)
    frames = dict(past)
    for source in sources:
        for name, count in source.totals.items():
            frames[name] = frames.get(name, 0) + count
    transports = sorted({source.transport for source in sources})
    statuses = tuple(source.status for source in sources if source.status)
    return Scene(
        panels=tuple(panels[:top_k]),
        statuses=statuses,
        transport="+".join(transports),
        notes=notes,
        trouble=trouble,
        frames=frames,
        next_up=_next_up(sources),
        world=sources[0].history.world if sources else NOWHERE,
        agents=tuple(sorted(source.name(row) for source in sources for row in source.rows)),
    )


def _next_up(sources: Sequence[Source]) -> tuple[tuple[str, int], ...]:
    """The best agents that are not featured, with their scores."""
    rest = [(source, row) for source in sources for row in source.rows if not row.place]
    rest.sort(key=lambda one: (one[1].score, one[1].episode_return), reverse=True)
    return tuple((source.name(row), row.score) for source, row in rest[:_NEXT_UP])
