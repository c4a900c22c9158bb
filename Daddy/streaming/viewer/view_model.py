"""Pure. Turns what relays tell into one scene, and says in words what is shown of it.

The window, the page and the lines are made of the same :class:`Scene`, and of the texts below it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from Daddy.core.humanize import format_count
from Daddy.core.shared_types import TUNNEL_PORT
from Daddy.streaming.protocol.frame_codec import FrameDecoder
from Daddy.streaming.protocol.framing import (
    BODY_LIMIT,
    Kind,
    Message,
    ProtocolError,
    Reason,
    clean,
    copy_line,
)
from Daddy.streaming.protocol.messages import (
    MAX_TOP_K,
    Peer,
    Row,
    Status,
    ack,
    read_frame,
    read_rows,
    read_stamps,
    read_status,
    stamps,
)
from Daddy.streaming.viewer.connect_plan import KNOCK_S, usual_causes
from Daddy.streaming.viewer.view_history import NOWHERE, History, World

STALE_S = 5.0
"""A picture older than this is dimmed and says so."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One agent to draw; ``age_s``: of its picture, ``silent_s``: since that came."""

    name: str
    peer: Peer
    row: Row
    map_name: str
    pixels: bytes | None
    frames: int
    bytes_per_frame: float
    age_s: float
    silent_s: float
    returns: tuple[float, ...]
    per_second: float = 0.0

    @property
    def stale(self) -> bool:
        return self.silent_s > STALE_S

    def facts(self) -> dict[str, Any]:
        """The panel without its picture, as the page and JSON lines have it."""
        row = self.row
        return {
            "agent": self.name,
            "place": row.place,
            "host": self.peer.host,
            "job": self.peer.job,
            "score": row.score,
            "badges": row.badges,
            "story_flags": row.story_flags,
            "level": row.level,
            "map": self.map_name,
            "return": round(row.episode_return, 3),
            "episode": row.episode,
            "step": row.step,
            "stale": self.stale,
        }


@dataclass(frozen=True, slots=True)
class Scene:
    """All there is to see at one moment."""

    panels: tuple[Panel, ...]
    statuses: tuple[Status, ...]
    transport: str
    notes: tuple[str, ...]
    trouble: str
    frames: Mapping[str, int]
    agents: tuple[str, ...] = ()
    world: World = NOWHERE
    carrier: tuple[str, ...] = ()
    """Words of ``connect`` while it brings a relay here."""
    alone_s: float = 0.0
    """Seconds without any relay."""

    @property
    def way(self) -> str:
        """The way of the pictures to the relay: from the jobs themselves, or later by the spool."""
        direct = {name for status in self.statuses for name in status.direct}
        if all(panel.peer.name in direct for panel in self.panels):
            return "direct"
        delay_s = max((status.delay_s for status in self.statuses), default=0.0)
        return f"delayed {delay_s:.1f} s (spool)"

    @property
    def connected(self) -> bool:
        return bool(self.transport)


class Waiting(NamedTuple):
    """The port we listen on, the login it would be, and ssh's options (they end in a space)."""

    port: int
    login: str
    options: str = ""

    @property
    def ssh_line(self) -> str:
        return f"ssh {self.options}-R {TUNNEL_PORT}:localhost:{self.port} {self.login}"


def run_names(scene: Scene) -> str:
    """The runs that are watched."""
    return " + ".join(status.run for status in scene.statuses) or "Daddy"


def headline(scene: Scene) -> tuple[str, str]:
    """The state of the stream, and its mood: "calls" for the person, "alarm" or neither."""
    if not scene.connected:
        return "waiting", "calls"
    if not scene.panels:
        return f"connected  ·  {scene.transport}", ""
    if all(panel.stale for panel in scene.panels):
        return f"no new picture  ·  {scene.transport}", "alarm"
    return f"live  ·  {scene.way}  ·  {scene.transport}", ""


def fleet_line(scene: Scene) -> str:
    """The fleet in a few numbers."""
    statuses = scene.statuses
    if not statuses:
        return "Watching never slows training, and closing this never stops it."
    jobs, agents = sum(len(one.peers) for one in statuses), sum(one.agents for one in statuses)
    parts = (
        f"{jobs} job{'s' * (jobs != 1)}",
        f"{agents} agent{'s' * (agents != 1)}",
        f"{sum(one.steps_per_s for one in statuses):,.0f} steps/s",
        f"{format_count(sum(one.steps for one in statuses))} steps",
        f"best score {max(one.best for one in statuses)}",
    )
    return " · ".join(parts)


def waiting_steps(scene: Scene, waiting: Waiting) -> list[tuple[str, str]]:
    """Steps to the first picture: each done, now, later, an alarm, or empty for a remark.

    Remarks are words of ``connect``, or the usual causes when no relay has come for long.
    """
    seen = scene.connected or bool(scene.trouble)
    steps = [
        ("done", f"listening on 127.0.0.1:{waiting.port}"),
        ("done" if seen else "now", "ssh brings a relay here"),
        ("done" if scene.connected else "now" if seen else "later", "the relay proves the token"),
        ("now" if scene.connected else "later", "a learner plays"),
    ]
    if scene.connected:
        return steps
    causes = usual_causes(waiting.login, TUNNEL_PORT) if scene.alone_s > KNOCK_S else ()
    remarks = scene.carrier or (() if scene.trouble else causes)
    alarms = [("alarm", scene.trouble)] if scene.trouble else []
    return [*steps, *alarms, *(("", line) for line in remarks)]


def line_to_copy(scene: Scene, waiting: Waiting) -> tuple[str, str]:
    """A caption, and the line that a person needs next."""
    if scene.connected:
        return "Nothing plays yet. On the login node:", "run_controller status"
    if "token" in scene.trouble:
        return "Once, on this computer (the token stays private):", copy_line(waiting.login)
    caption = "Or by hand, in another terminal:" if scene.carrier else "In another terminal:"
    return caption, waiting.ssh_line


MAX_STREAMS = 32
MAX_NAMES = 512
"""Agents whose pictures are counted by name: as many as a TELEM has rows."""
_RETURNS = 120
_OF_LATE_S = 5.0
_ARRIVALS = 360
"""As many as come in that time at 60 a second, and some."""
_NEED_KEYS, _NEED_KEYS_S = 3, 10.0
_OURS = (Kind.HELLO, Kind.AUTH, Kind.ACK, Kind.NEED_KEY, Kind.SUBSCRIBE)


@dataclass
class Stream:
    """Everything received of one stream number."""

    decoder: FrameDecoder = field(default_factory=FrameDecoder)
    pixels: bytes | None = None
    frames: int = 0
    size: int = 0
    received: float = 0.0
    arrivals: deque[float] = field(default_factory=lambda: deque(maxlen=_ARRIVALS))
    captured_ms: int = 0
    returns: deque[float] = field(default_factory=lambda: deque(maxlen=_RETURNS))

    def per_second(self, now: float) -> float:
        """Pictures a second of late; those before are forgotten."""
        while self.arrivals and now - self.arrivals[0] > _OF_LATE_S:
            self.arrivals.popleft()
        return len(self.arrivals) / _OF_LATE_S


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
        """The carrier of the pictures: as seen at the socket, else as the relay says."""
        if self._owner is None:
            return (self.status or Status(via="unknown")).via
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
            self._need_keys.append(now)
            if len(self._need_keys) == _NEED_KEYS and now - self._need_keys[0] < _NEED_KEYS_S:
                raise ProtocolError("three pictures in ten seconds could not be decoded")
            return [Message(Kind.NEED_KEY, stream=message.stream)]
        stream.pixels, stream.received = pixels, now
        stream.arrivals.append(now)
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

    def _telemetry(self, rows: list[Row]) -> str:
        """Take the rows over; a sentence on what featured agents have just achieved."""
        live = {row.stream: row for row in rows if row.stream}
        for row in self.rows:  # an agent that leaves stays until its successor's first picture
            stream = self.streams.get(row.stream)
            shown = row.place <= MAX_TOP_K and row.stream not in live
            if shown and stream and stream.pixels:
                self._outgoing[row.place] = (row, stream)
        news, self.rows = self._news(rows), tuple(rows)
        self.history.add([(self.name(row), self.place(row), row) for row in rows])
        self.streams = {number: one for number, one in self.streams.items() if number in live}
        for number, row in live.items():
            self._stream(number).returns.append(row.episode_return)
        return "  ·  ".join(news)

    def _news(self, rows: list[Row]) -> list[str]:
        """Sentences on badges and maps that featured agents have just reached."""
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
        return (self.status or Status()).maps.get(row.map_id, f"map {row.map_id}")

    def name(self, row: Row) -> str:
        """``slot-0/3``: the agent's name on screen and in events."""
        return f"{self.peer(row).name}/{row.agent}"

    def peer(self, row: Row) -> Peer:
        table = (self.status or Status()).peers
        return table[row.peer] if row.peer < len(table) else _MISSING

    def panel(self, row: Row, now: float) -> Panel:
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
            per_second=stream.per_second(now),
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
    """The best ``top_k`` agents, the pinned first; ``past`` counts frames of ended connections."""
    panels = [source.panel(row, now) for source in sources for row in source.rows if row.stream]
    if len(sources) > 1:
        rank = lambda one: (one.name in pinned, one.row.score, one.row.episode_return)  # noqa: E731
        panels.sort(key=rank, reverse=True)
    else:
        panels.sort(key=lambda one: one.row.place)
    frames = Counter(past)
    for source in sources:
        frames.update(source.totals)
    transports = sorted({source.transport for source in sources})
    statuses = tuple(source.status for source in sources if source.status)
    return Scene(
        panels=tuple(panels[:top_k]),
        statuses=statuses,
        transport="+".join(transports),
        notes=notes,
        trouble=trouble,
        frames=frames,
        world=sources[0].history.world if sources else NOWHERE,
        agents=tuple(sorted(source.name(row) for source in sources for row in source.rows)),
    )
