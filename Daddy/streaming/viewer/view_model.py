"""Pure. Builds one scene from the relays' messages, and the texts that describe the scene.

The window, the page and the printed lines show the same :class:`Scene` and the same texts.
"""

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from Daddy.core.humanize import format_count
from Daddy.core.shared_types import TUNNEL_PORT
from Daddy.streaming.protocol.frame_codec import FrameDecoder
from Daddy.streaming.protocol.framing import (
    BODY_LIMIT,
    Message,
    MessageKind,
    ProtocolError,
    Reason,
    clean_text,
    token_copy_command,
)
from Daddy.streaming.protocol.messages import (
    MAX_TOP_K,
    Peer,
    Status,
    TelemetryRow,
    pack_ack,
    pack_stamps,
    read_frame,
    read_rows,
    read_stamps,
    read_status,
)
from Daddy.streaming.viewer.agent_trails import NO_HISTORY, HistorySnapshot, ViewHistory
from Daddy.streaming.viewer.connect_plan import NO_RELAY_S, usual_causes

STALE_S = 5.0
"""Age of a picture, seconds, above which it is dimmed and marked."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One agent; ``age_s``: since its picture's capture, ``silent_s``: since its arrival (s)."""

    name: str
    peer: Peer
    row: TelemetryRow
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

    def fields(self) -> dict[str, Any]:
        """Return the agent's facts for the web page and the JSON lines."""
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
    """Holds everything that a viewer shows at one time; relays' facts are merged."""

    panels: tuple[Panel, ...]
    statuses: tuple[Status, ...]
    transport: str
    notes: tuple[str, ...]
    trouble: str
    frames: Mapping[str, int]
    agents: tuple[str, ...] = ()
    history: HistorySnapshot = NO_HISTORY
    connect_lines: tuple[str, ...] = ()
    """Lines of ``connect`` while it connects to a relay."""
    without_relay_s: float = 0.0
    """Seconds since a relay was last connected."""

    @property
    def delivery(self) -> str:
        """Route of the pictures to the relay: "direct" from jobs, or delayed by the spool."""
        direct = {name for status in self.statuses for name in status.direct}
        if all(panel.peer.name in direct for panel in self.panels):
            return "direct"
        delay_s = max((status.delay_s for status in self.statuses), default=0.0)
        return f"delayed {delay_s:.1f} s (spool)"

    @property
    def connected(self) -> bool:
        return bool(self.transport)


CONNECT = "python -m Daddy.streaming.tunnel_server connect"


class TunnelInfo(NamedTuple):
    """Holds the viewer's port, the login, and ssh's options, which end in a space. ``connects``:
    the laptop has a key for `connect`, which needs no tunnel.
    """

    port: int
    login: str
    options: str = ""
    connects: bool = False

    @property
    def line(self) -> str:
        """The command that brings a relay to a viewer."""
        if self.connects:
            return CONNECT
        return f"ssh {self.options}-R {TUNNEL_PORT}:localhost:{self.port} {self.login}"


def run_names(scene: Scene) -> str:
    """Return the names of the watched runs."""
    return " + ".join(status.run for status in scene.statuses) or "Daddy"


def headline(scene: Scene) -> tuple[str, str]:
    """Return the stream's state, and "calls" if a person must act, "alarm", or ""."""
    if not scene.connected:
        return "waiting", "calls"
    if not scene.panels:
        return f"connected  ·  {scene.transport}", ""
    if all(panel.stale for panel in scene.panels):
        return f"no new picture  ·  {scene.transport}", "alarm"
    return f"live  ·  {scene.delivery}  ·  {scene.transport}", ""


def fleet_line(scene: Scene) -> str:
    """Return jobs, agents, steps and best score of all watched runs as one line."""
    statuses = scene.statuses
    if not statuses:
        return "Watching never slows training, and closing this never stops it."
    jobs, agents = sum(len(s.peers) for s in statuses), sum(s.agents for s in statuses)
    parts = (
        f"{jobs} job{'s' * (jobs != 1)}",
        f"{agents} agent{'s' * (agents != 1)}",
        f"{sum(s.steps_per_s for s in statuses):,.0f} steps/s",
        f"{format_count(sum(s.steps for s in statuses))} steps",
        f"best score {max(s.best for s in statuses)}",
    )
    return " · ".join(parts)


def waiting_steps(scene: Scene, tunnel: TunnelInfo) -> list[tuple[str, str]]:
    """Return (state, text) of each step to the first picture: done, now, later, alarm or "".

    A text with the state "" is a remark: a line of ``connect``, or a usual cause of no relay.
    """
    met = scene.connected or bool(scene.trouble)
    steps = [
        ("done", f"listening on 127.0.0.1:{tunnel.port}"),
        ("done" if met else "now", "ssh brings a relay here"),
        ("done" if scene.connected else "now" if met else "later", "the relay proves the token"),
        ("now" if scene.connected else "later", "a learner plays"),
    ]
    if scene.connected:
        return steps
    causes = usual_causes(tunnel.login, TUNNEL_PORT) if scene.without_relay_s > NO_RELAY_S else ()
    remarks = scene.connect_lines or (() if scene.trouble else causes)
    alarms = [("alarm", scene.trouble)] if scene.trouble else []
    return [*steps, *alarms, *(("", line) for line in remarks)]


def line_to_copy(scene: Scene, tunnel: TunnelInfo) -> tuple[str, str]:
    """Return a caption and the command that the person should type next."""
    if scene.connected:
        return "Nothing plays yet. On the login node:", "run_controller status"
    if "token" in scene.trouble:
        caption = "Once, on this computer (the token stays private):"
        return caption, token_copy_command(tunnel.login)
    if tunnel.connects:
        return "Instead of this viewer (needs no tunnel):", tunnel.line
    caption = "Or by hand, in another terminal:" if scene.connect_lines else "In another terminal:"
    return caption, tunnel.line


MAX_STREAMS = 32
MAX_NAMES = 512
"""Agents whose pictures are counted by name: as many as a TELEM has rows."""
_RETURNS = 120
_RATE_WINDOW_S = 5.0
_ARRIVALS = 360
"""Arrival times kept: more than ``_RATE_WINDOW_S`` at 60 pictures a second."""
_MOST_DECODE_FAILURES, _DECODE_FAILURES_S = 3, 10.0
_VIEWER_KINDS = {MessageKind[name] for name in ("HELLO", "AUTH", "ACK", "NEED_KEY", "SUBSCRIBE")}


@dataclass
class ReceivedStream:
    """Holds the state of one stream number: decoder, newest picture and counts."""

    decoder: FrameDecoder = field(default_factory=FrameDecoder)
    pixels: bytes | None = None
    frames: int = 0
    size: int = 0
    received: float = 0.0
    arrivals: deque[float] = field(default_factory=lambda: deque(maxlen=_ARRIVALS))
    captured_ms: int = 0
    returns: deque[float] = field(default_factory=lambda: deque(maxlen=_RETURNS))

    def per_second(self, now: float) -> float:
        """Return the pictures a second within the last five seconds."""
        while self.arrivals and now - self.arrivals[0] > _RATE_WINDOW_S:
            self.arrivals.popleft()
        return len(self.arrivals) / _RATE_WINDOW_S


_MISSING = Peer("?", "?", "?")


class RelayState:
    """Collects one relay's messages; ``program`` is at the other end of the socket, or None."""

    def __init__(self, program: str | None) -> None:
        self._program = program
        self.status: Status | None = None
        self.rows: tuple[TelemetryRow, ...] = ()
        self.streams: dict[int, ReceivedStream] = {}
        self._outgoing: dict[int, tuple[TelemetryRow, ReceivedStream]] = {}
        self.frame_counts: dict[str, int] = {}
        self.history = ViewHistory()
        self._decode_failures: deque[float] = deque(maxlen=_MOST_DECODE_FAILURES)
        self._offset_ms: float | None = None

    @property
    def transport(self) -> str:
        """Route of the pictures: from the program at the socket, or from the relay's STATUS."""
        if self._program is None:
            return (self.status or Status(via="unknown")).via
        return "ssh-R" if self._program.startswith("ssh") else "spool"

    def handle_message(self, message: Message, now: float) -> tuple[list[Message], str]:
        """Handle a relay's message; return the answers, and a sentence for the news or ""."""
        if message.kind == MessageKind.FRAME:
            return self._handle_frame(message, now), ""
        if message.kind == MessageKind.TELEM:
            return [], self._handle_telemetry(read_rows(message.body))
        if message.kind == MessageKind.STATUS:
            self.status = read_status(message.body)
        elif message.kind == MessageKind.PING:
            return [self._pong(message.body, now)], ""
        elif message.kind == MessageKind.NOTE:
            text = message.body.decode(errors="replace")
            return [], clean_text(text, BODY_LIMIT[MessageKind.NOTE])
        elif message.kind == MessageKind.BYE:
            raise ProtocolError("the relay has ended", Reason.DONE)
        elif message.kind in _VIEWER_KINDS:
            raise ProtocolError(f"a relay does not send kind {message.kind}")
        return [], ""

    def _pong(self, body: bytes, now: float) -> Message:
        """Answer a PING; note the relay's clock offset (ms) if this PING was the fastest so far."""
        theirs, _ = read_stamps(body)
        offset = now * 1000 - theirs
        self._offset_ms = offset if self._offset_ms is None else min(self._offset_ms, offset)
        return Message(MessageKind.PONG, pack_stamps(theirs, round(now * 1000)))

    def _handle_frame(self, message: Message, now: float) -> list[Message]:
        frame = read_frame(message.body)
        stream = self._stream(message.stream)
        pixels = stream.decoder.decode(frame)
        if pixels is None:
            (failures := self._decode_failures).append(now)
            if len(failures) == failures.maxlen and now - failures[0] < _DECODE_FAILURES_S:
                raise ProtocolError("three pictures in ten seconds could not be decoded")
            return [Message(MessageKind.NEED_KEY, stream=message.stream)]
        stream.pixels, stream.received = pixels, now
        stream.arrivals.append(now)
        stream.captured_ms = frame.captured_ms
        stream.frames += 1
        stream.size += len(message.body)
        row = next((row for row in self.rows if row.stream == message.stream), None)
        if row:
            add_frames(self.frame_counts, self.agent_name(row), 1)
        return [Message(MessageKind.ACK, pack_ack(frame.seq), stream=message.stream)]

    def _stream(self, number: int) -> ReceivedStream:
        if number not in self.streams:
            while len(self.streams) >= MAX_STREAMS:
                del self.streams[next(iter(self.streams))]
            self.streams[number] = ReceivedStream()
        return self.streams[number]

    def _handle_telemetry(self, rows: list[TelemetryRow]) -> str:
        """Store the rows; return a sentence on new badges and maps of featured agents, or ""."""
        live = {row.stream: row for row in rows if row.stream}
        for row in self.rows:  # a replaced agent is shown until its successor's first picture
            stream = self.streams.get(row.stream)
            shown = row.place <= MAX_TOP_K and row.stream not in live
            if shown and stream and stream.pixels:
                self._outgoing[row.place] = (row, stream)
        news, self.rows = self._achievements(rows), tuple(rows)
        named = [(self.agent_name(row), self.map_name(row), row) for row in rows]
        self.history.add_telemetry(named)
        self.streams = {number: s for number, s in self.streams.items() if number in live}
        for number, row in live.items():
            self._stream(number).returns.append(row.episode_return)
        return "  ·  ".join(news)

    def _achievements(self, rows: list[TelemetryRow]) -> list[str]:
        """Return sentences on badges and maps that featured agents have just reached."""
        before = {(row.peer, row.agent, row.episode): row for row in self.rows}
        news = []
        for row in rows:
            old = before.get((row.peer, row.agent, row.episode))
            if row.place and old and row.badges > old.badges:
                news.append(f"{self.agent_name(row)} won badge {row.badges}")
            elif row.place and old and row.map_id != old.map_id:
                news.append(f"{self.agent_name(row)} came to {self.map_name(row)}")
        return news

    def map_name(self, row: TelemetryRow) -> str:
        return (self.status or Status()).maps.get(row.map_id, f"map {row.map_id}")

    def agent_name(self, row: TelemetryRow) -> str:
        """Return the agent's name on screen and in events: ``slot-0/3``."""
        return f"{self.peer_of(row).name}/{row.agent}"

    def peer_of(self, row: TelemetryRow) -> Peer:
        table = (self.status or Status()).peers
        return table[row.peer] if row.peer < len(table) else _MISSING

    def make_panel(self, row: TelemetryRow, now: float) -> Panel:
        stream = self.streams.get(row.stream) or ReceivedStream()
        if stream.pixels is None and row.place in self._outgoing:
            before, last = self._outgoing[row.place]
            row, stream = (before, last) if now - last.received <= STALE_S else (row, stream)
        age = self._age(stream, now)
        silent = now - stream.received if stream.pixels else 0.0
        return Panel(
            name=self.agent_name(row),
            peer=self.peer_of(row),
            row=row,
            map_name=self.map_name(row),
            pixels=stream.pixels,
            frames=stream.frames,
            bytes_per_frame=stream.size / max(1, stream.frames),
            age_s=age,
            silent_s=max(silent, age) if age > STALE_S else silent,
            returns=tuple(stream.returns),
            per_second=stream.per_second(now),
        )

    def _age(self, stream: ReceivedStream, now: float) -> float:
        """Return the picture's age in seconds; 0 while the relay's clock is unknown."""
        if stream.pixels is None or self._offset_ms is None:
            return 0.0
        captured_here = stream.captured_ms + self._offset_ms % 2**32
        age_ms = (now * 1000 - captured_here) % 2**32
        return 0.0 if age_ms > 2**31 else age_ms / 1000


def add_frames(totals: dict[str, int], name: str, more: int) -> None:
    """Add ``more`` to an agent's frame count; ignore new names beyond ``MAX_NAMES``."""
    if name in totals or len(totals) < MAX_NAMES:
        totals[name] = totals.get(name, 0) + more


def compose_scene(
    relays: Sequence[RelayState],
    top_k: int,
    now: float,
    notes: tuple[str, ...],
    trouble: str,
    past: Mapping[str, int],
    pinned: Collection[str] = (),
) -> Scene:
    """Return the scene of the best agents; ``past``: frame counts of closed connections."""
    panels = [relay.make_panel(row, now) for relay in relays for row in relay.rows if row.stream]
    if len(relays) > 1:
        rank = lambda panel: (panel.name in pinned, panel.row.score, panel.row.episode_return)  # noqa: E731
        panels.sort(key=rank, reverse=True)
    else:
        panels.sort(key=lambda panel: panel.row.place)
    frames = Counter(past)
    for relay in relays:
        frames.update(relay.frame_counts)
    transports = sorted({relay.transport for relay in relays})
    statuses = tuple(relay.status for relay in relays if relay.status)
    return Scene(
        panels=tuple(panels[:top_k]),
        statuses=statuses,
        transport="+".join(transports),
        notes=notes,
        trouble=trouble,
        frames=frames,
        history=relays[0].history.snapshot if relays else NO_HISTORY,
        agents=tuple(sorted(relay.agent_name(row) for relay in relays for row in relay.rows)),
    )
