"""Pure. Builds up the relay's knowledge of all jobs from their segments."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from Daddy.streaming.best_selector import AgentKey, Candidate
from Daddy.streaming.protocol.messages import MAX_MAPS, Peer, Row
from Daddy.streaming.protocol.spool_segment import Segment

_REMEMBERED = 64
Began = tuple[int, float, bool]
"""An episode's number, when it was first seen, and whether that was its beginning."""


class Episodes:
    """Learns from telemetry; times are monotonic seconds."""

    def __init__(self) -> None:
        self._began: dict[int, Began] = {}
        self._lengths: deque[float] = deque(maxlen=_REMEMBERED)
        self._usual_s = math.inf

    def add(self, rows: Iterable[Row], now: float) -> None:
        before, self._began = self._began, {}
        for row in rows:
            number, since, whole = before.get(row.agent, (row.episode, now, False))
            if number != row.episode:
                if whole and row.episode == number + 1:
                    self._lengths.append(now - since)
                    self._usual_s = median(self._lengths)
                since, whole = now, True
            self._began[row.agent] = (row.episode, since, whole)

    def left_s(self, agent: int, now: float) -> float:
        """Seconds left of the episode if it lasts as long as the median; infinite if unknown."""
        _, since, whole = self._began.get(agent, (0, now, False))
        return self._usual_s - (now - since) if whole else math.inf

    def restart(self) -> None:
        """Another process counts anew; its episodes are of the same kind."""
        self._began.clear()


FORGET_S = 60.0
"""A peer that was silent for so long has ended."""
_RATE_WINDOW_S = 15.0


@dataclass
class PeerState:
    """The newest words of one peer, and the growth of its steps."""

    name: str
    host: str = ""
    job: str = ""
    incarnation: str = ""
    seen: float = 0.0
    rows: tuple[Row, ...] = ()
    maps: dict[int, str] = field(default_factory=dict)
    steps: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=64))
    offset_ms: int | None = None
    sent_ms: int | None = None
    """Of the newest telemetry: the spool may tell again what came here straight."""
    episodes: Episodes = field(default_factory=Episodes)

    def absorb(self, segment: Segment, now: float) -> None:
        """Take over a segment that arrived at ``now`` (monotonic seconds)."""
        if segment.incarnation != self.incarnation:
            self.steps.clear()
            self.episodes.restart()
            self.offset_ms = self.sent_ms = None
        self.host, self.job, self.incarnation = segment.host, segment.job, segment.incarnation
        if not segment.rows or (self.sent_ms is not None and segment.sent_ms <= self.sent_ms):
            return
        self.sent_ms = segment.sent_ms
        self.seen, self.rows = now, segment.rows
        self.episodes.add(segment.rows, now)
        self.maps = dict(list({**self.maps, **segment.maps}.items())[-MAX_MAPS:])
        self.steps.append((now, max((row.step for row in segment.rows), default=0)))
        offset = round(now * 1000) - segment.sent_ms
        self.offset_ms = offset if self.offset_ms is None else min(offset, self.offset_ms)

    def steps_per_s(self, now: float) -> float:
        recent = [one for one in self.steps if now - one[0] <= _RATE_WINDOW_S]
        if len(recent) < 2 or recent[-1][0] <= recent[0][0]:  # noqa: PLR2004 - a rate needs two
            return 0.0
        return max(0.0, (recent[-1][1] - recent[0][1]) / (recent[-1][0] - recent[0][0]))


class Fleet:
    """Every peer of the run that has spoken lately."""

    def __init__(self) -> None:
        self._peers: dict[str, PeerState] = {}

    def absorb(self, segments: Iterable[Segment], now: float) -> None:
        """Take over new segments and forget who has been silent for a minute."""
        for segment in segments:
            self._peers.setdefault(segment.peer, PeerState(segment.peer)).absorb(segment, now)
        recent = {name: one for name, one in self._peers.items() if now - one.seen <= FORGET_S}
        self._peers = recent

    def candidates(self, now: float) -> list[Candidate]:
        return [
            Candidate(key, row, peer.seen, peer.episodes.left_s(row.agent, now))
            for peer in self._peers.values()
            for row in peer.rows
            if (key := AgentKey(peer.name, row.agent))
        ]

    def clock_offset_ms(self, peer: str) -> int:
        """The relay's clock less ``peer``'s; off by the fastest delivery seen."""
        state = self._peers.get(peer)
        return (state.offset_ms or 0) if state else 0

    def _ordered(self) -> list[PeerState]:
        """The peers in the order in which rows refer to them."""
        return sorted(self._peers.values(), key=lambda one: one.name)

    def status(self, featured: Sequence[AgentKey], now: float) -> dict[str, Any]:
        """Peers, agents, steps and names of maps (those of featured agents' peers win)."""
        peers = self._ordered()
        names: dict[int, str] = {}
        for name in [*self._peers, *(key.peer for key in featured)]:
            names.update(self._peers[name].maps if name in self._peers else {})
        return {
            "agents": sum(len(one.rows) for one in peers),
            "steps": sum(one.steps[-1][1] for one in peers if one.steps),
            "steps_per_s": sum(one.steps_per_s(now) for one in peers),
            "peers": tuple(Peer(one.name, one.host, one.job, now - one.seen) for one in peers),
            "maps": names,
        }

    def rows(self, streams: Mapping[AgentKey, int], now: float) -> list[Row]:
        """Telemetry of all agents, the featured ones first; ``streams`` is in order of place."""
        places = {key: number for number, key in enumerate(streams, 1)}
        rows = []
        for index, peer in enumerate(self._ordered()):
            for row in peer.rows:
                key = AgentKey(peer.name, row.agent)
                shown = {"stream": streams.get(key, 0), "place": places.get(key, 0)}
                rows.append(replace(row, peer=index, age_s=now - peer.seen, **shown))
        return sorted(rows, key=lambda row: (row.place == 0, row.place))
