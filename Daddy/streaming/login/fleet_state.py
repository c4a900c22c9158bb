"""Pure. Collects the newest telemetry of all peers from their segments."""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from Daddy.streaming.best_selector import AgentKey, Candidate
from Daddy.streaming.protocol.messages import MAX_MAPS, Peer, TelemetryRow
from Daddy.streaming.protocol.spool_segment import Segment

_REMEMBERED = 64
EpisodeStart = tuple[int, float, bool]
"""An episode's number, the time it was first seen, and whether its first report was seen."""


class EpisodeLengths:
    """Estimates the length of a peer's episodes from telemetry; times are monotonic seconds."""

    def __init__(self) -> None:
        self._began: dict[int, EpisodeStart] = {}
        self._lengths: deque[float] = deque(maxlen=_REMEMBERED)
        self._usual_s = math.inf

    def add_rows(self, rows: Iterable[TelemetryRow], now: float) -> None:
        before, self._began = self._began, {}
        for row in rows:
            number, since, whole = before.get(row.agent, (row.episode, now, False))
            if number != row.episode:
                if whole and row.episode == number + 1:
                    self._lengths.append(now - since)
                    self._usual_s = median(self._lengths)
                since, whole = now, True
            self._began[row.agent] = (row.episode, since, whole)

    def seconds_left(self, agent: int, now: float) -> float:
        """Return the seconds left if the episode takes the median time; infinity if unknown."""
        _, since, whole = self._began.get(agent, (0, now, False))
        return self._usual_s - (now - since) if whole else math.inf

    def forget_starts(self) -> None:
        """Forget when running episodes began, as the process restarted; keep the median."""
        self._began.clear()


FORGET_S = 60.0
"""Seconds of silence after which a peer counts as ended."""
_RATE_WINDOW_S = 15.0


@dataclass
class PeerState:
    """Holds the newest telemetry of one peer, and its step counts over time."""

    name: str
    host: str = ""
    job: str = ""
    incarnation: str = ""
    reported_at: float = 0.0
    rows: tuple[TelemetryRow, ...] = ()
    maps: dict[int, str] = field(default_factory=dict)
    steps: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=64))
    offset_ms: int | None = None
    sent_ms: int | None = None
    """Stamp of the newest telemetry: the spool repeats messages that came by the direct port."""
    episodes: EpisodeLengths = field(default_factory=EpisodeLengths)

    def add_segment(self, segment: Segment, now: float) -> None:
        """Store a segment that arrived at ``now`` (monotonic s), unless it is a repeated one."""
        if segment.incarnation != self.incarnation:
            self.steps.clear()
            self.episodes.forget_starts()
            self.offset_ms = self.sent_ms = None
        self.host, self.job, self.incarnation = segment.host, segment.job, segment.incarnation
        if not segment.rows or (self.sent_ms is not None and segment.sent_ms <= self.sent_ms):
            return
        self.sent_ms = segment.sent_ms
        self.reported_at, self.rows = now, segment.rows
        self.episodes.add_rows(segment.rows, now)
        self.maps = dict(list({**self.maps, **segment.maps}.items())[-MAX_MAPS:])
        self.steps.append((now, max((row.step for row in segment.rows), default=0)))
        offset = round(now * 1000) - segment.sent_ms
        self.offset_ms = offset if self.offset_ms is None else min(offset, self.offset_ms)

    def steps_per_s(self, now: float) -> float:
        recent = [(at, steps) for at, steps in self.steps if now - at <= _RATE_WINDOW_S]
        if len(recent) < 2 or recent[-1][0] <= recent[0][0]:  # noqa: PLR2004 - a rate needs two
            return 0.0
        return max(0.0, (recent[-1][1] - recent[0][1]) / (recent[-1][0] - recent[0][0]))


class FleetState:
    """Holds the state of every peer that has reported within the last minute."""

    def __init__(self) -> None:
        self._peers: dict[str, PeerState] = {}

    def add_segments(self, segments: Iterable[Segment], now: float) -> None:
        """Store new segments; forget peers that sent no report for a minute."""
        for segment in segments:
            self._peers.setdefault(segment.peer, PeerState(segment.peer)).add_segment(segment, now)
        peers = self._peers.items()
        self._peers = {name: p for name, p in peers if now - p.reported_at <= FORGET_S}

    def candidates(self, now: float) -> list[Candidate]:
        return [
            Candidate(key, row, peer.reported_at, peer.episodes.seconds_left(row.agent, now))
            for peer in self._peers.values()
            for row in peer.rows
            if (key := AgentKey(peer.name, row.agent))
        ]

    def clock_offset_ms(self, peer: str) -> int:
        """Return the relay's clock minus ``peer``'s (ms), as the fastest delivery showed it."""
        state = self._peers.get(peer)
        return (state.offset_ms or 0) if state else 0

    def _ordered(self) -> list[PeerState]:
        """Return the peers by name; rows refer to them by their index in this list."""
        return sorted(self._peers.values(), key=lambda peer: peer.name)

    def status_fields(self, featured: Iterable[AgentKey], now: float) -> dict[str, Any]:
        """Return fields of a STATUS; map names of featured agents' peers take precedence."""
        peers = self._ordered()
        names: dict[int, str] = {}
        for name in [*self._peers, *(key.peer for key in featured)]:
            names.update(self._peers[name].maps if name in self._peers else {})
        named = tuple(Peer(p.name, p.host, p.job, now - p.reported_at) for p in peers)
        return {
            "agents": sum(len(peer.rows) for peer in peers),
            "steps": sum(peer.steps[-1][1] for peer in peers if peer.steps),
            "steps_per_s": sum(peer.steps_per_s(now) for peer in peers),
            "peers": named,
            "maps": names,
        }

    def telemetry_rows(self, streams: Mapping[AgentKey, int], now: float) -> list[TelemetryRow]:
        """Return rows of all agents, featured ones first; ``streams`` is in order of place."""
        places = {key: number for number, key in enumerate(streams, 1)}
        rows = []
        for index, peer in enumerate(self._ordered()):
            for row in peer.rows:
                key = AgentKey(peer.name, row.agent)
                shown = {"stream": streams.get(key, 0), "place": places.get(key, 0)}
                rows.append(replace(row, peer=index, age_s=now - peer.reported_at, **shown))
        return sorted(rows, key=lambda row: (row.place == 0, row.place))
