"""Pure. Chooses the agents to show, each with a stream of its own.

Takes segments in, gives messages for the viewer and wishes for the jobs out; the relay around it
moves bytes and reads the clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from Daddy.streaming.best_selector import AgentKey, Featured, Rules, score, select
from Daddy.streaming.login.fleet_state import Fleet
from Daddy.streaming.login.flow_control import FREE_S, UNACKED_BYTES, Pace, Playout, Sender, window
from Daddy.streaming.protocol.framing import BODY_LIMIT, Kind, Message, ProtocolError
from Daddy.streaming.protocol.messages import MAX_TOP_K, Status, Wish, pack_rows, read_ack
from Daddy.streaming.protocol.spool_segment import Picture, Segment

_DELAY_WEIGHT = 0.1
_LAST_PICTURES = 2 * MAX_TOP_K
_OURS = (Kind.HELLO, Kind.AUTH, Kind.STATUS, Kind.TELEM, Kind.FRAME)


@dataclass
class Channel:
    """One featured agent on its way to the viewer."""

    stream: int
    sender: Sender
    playout: Playout = field(default_factory=Playout)


class Programme:
    """Chooses and paces; ``about`` has the facts that stay, ``rules`` the choice's restlessness."""

    def __init__(self, about: Status, wish: Wish, rules: Rules) -> None:
        self.about = about
        self.wish = wish
        self.fleet = Fleet()
        self.direct: frozenset[str] = frozenset()
        """Jobs that the relay is connected to; of the others it reads the spool."""
        self.channels: dict[AgentKey, Channel] = {}
        self._rules = rules
        self._pace = Pace()
        self._places: tuple[Featured, ...] = ()
        self._streams = 0
        self._delay_s = 0.0
        self._best = 0
        self._lasts: dict[AgentKey, Picture] = {}
        """The last picture sent of each agent; those that were not seen for longest go first."""

    @property
    def featured(self) -> tuple[AgentKey, ...]:
        """The featured agents by place."""
        return tuple(self.channels)

    def wanted(self) -> dict[str, frozenset[int]]:
        peers = {key.peer for key in self.featured}
        return {p: frozenset(k.agent for k in self.featured if k.peer == p) for p in peers}

    def absorb(self, segments: Iterable[Segment], now: float) -> None:
        """Take over new segments: telemetry at once, pictures at their own pace."""
        segments = list(segments)
        self.fleet.absorb(segments, now)
        for segment in segments:
            for key, channel in self.channels.items():
                if key.peer == segment.peer:
                    shift_ms = self.fleet.clock_offset_ms(key.peer)
                    lump = [
                        replace(picture, captured_ms=picture.captured_ms + shift_ms)
                        for picture in segment.pictures
                        if picture.agent == key.agent
                    ]
                    channel.playout.add(lump, now, direct=key.peer in self.direct)

    def choose(self, now: float) -> tuple[str, ...]:
        """Choose who is featured; returns a sentence for each change."""
        candidates = self.fleet.candidates(now)
        self._best = max((score(one.report) for one in candidates), default=0)
        pins = [AgentKey(*pin) for pin in self.wish.pins]
        selection = select(candidates, self._places, self.wish.top_k, now, self._rules, pins)
        self._places = selection.places
        keys = [place.key for place in self._places]
        self.channels = {key: self.channels.get(key) or self._channel(key) for key in keys}
        return selection.reasons

    def _channel(self, key: AgentKey) -> Channel:
        """A stream for ``key``; it begins with the last picture known, whose stamp is its age."""
        self._streams = self._streams % 0xFFFF + 1
        channel = Channel(self._streams, Sender())
        if key in self._lasts:
            channel.sender.offer(self._lasts[key])
        return channel

    def restart(self) -> None:
        """A new viewer: it has no picture yet, so every stream begins anew."""
        self._pace = Pace()
        self.channels = {key: self._channel(key) for key in self.channels}

    def awaits(self) -> bool:
        """An agent is featured of which no picture is known."""
        return not self.channels.keys() <= self._lasts.keys()

    def hear(self, message: Message, now: float) -> tuple[str, ...]:
        """Take a viewer's message; sentences for the person. ProtocolError: not a viewer's."""
        channel = next((c for c in self.channels.values() if c.stream == message.stream), None)
        if message.kind == Kind.ACK:
            seq = read_ack(message.body)
            rtt_s = channel.sender.acked(seq, now) if channel else None
            return () if rtt_s is None else self._pace.heard(rtt_s, self.wish.fps, now)
        if message.kind == Kind.NEED_KEY:
            if channel:
                channel.sender.need_key()
        elif message.kind in _OURS:
            raise ProtocolError(f"a viewer does not send kind {message.kind}")
        return ()

    def frames(self, now: float) -> list[Message]:
        """Frames that are due and that the link has room for; on a full line of one agent alone."""
        for key, channel in self.channels.items():
            for _, picture in channel.playout.due(now):
                channel.sender.offer(picture)
                self._lasts.pop(key, None)
                self._lasts[key] = picture
        while len(self._lasts) > _LAST_PICTURES:
            del self._lasts[next(iter(self._lasts))]
        channels = list(self.channels.values())
        if self._pace.alone:
            channels = [one for one in channels if one.sender.busy(now, FREE_S)][:1]
        allowed = window(self._pace.least_s, self.wish.fps)
        gap_s = 1 / self._pace.fps if self._pace.fps < self.wish.fps else 0.0
        messages = []
        for channel in channels:
            if self._unacked() > UNACKED_BYTES:
                break
            frame = channel.sender.next(now, allowed, gap_s)
            if frame is not None:
                late = ((round(now * 1000) - frame.captured_ms) % 2**32) / 1000
                self._delay_s += _DELAY_WEIGHT * (late - self._delay_s)
                messages.append(Message(Kind.FRAME, frame.pack(), stream=channel.stream))
        return messages + [note(text) for text in self._pace.sent(self._unacked(), now)]

    def _unacked(self) -> int:
        return sum(channel.sender.unacked_bytes() for channel in self.channels.values())

    def next_due(self) -> float:
        """When the next picture is due (monotonic seconds); infinite when none waits."""
        return min((one.playout.next_due() for one in self.channels.values()), default=math.inf)

    def news(self, now: float) -> list[Message]:
        """How the run goes, and telemetry of all agents, featured ones first."""
        rows = self.fleet.rows({key: one.stream for key, one in self.channels.items()}, now)
        status = self.status(now).pack()
        return [Message(Kind.STATUS, status), Message(Kind.TELEM, pack_rows(rows))]

    def status(self, now: float) -> Status:
        return replace(
            self.about,
            best=self._best,
            delay_s=self._delay_s,
            direct=tuple(sorted(self.direct)),
            **self.fleet.status(self.featured, now),
        )


def note(text: str) -> Message:
    """A sentence for the person at the viewer."""
    return Message(Kind.NOTE, text.encode()[: BODY_LIMIT[Kind.NOTE]])
