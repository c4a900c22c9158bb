"""Pure: what the relay shows: the chosen agents, each with a stream of its own.

Takes segments in, gives messages for the viewer and wishes for the jobs out; the relay around it
moves bytes and asks the clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from Daddy.streaming.best_selector import AgentKey, Featured, Rules, score, select
from Daddy.streaming.fleet import Fleet
from Daddy.streaming.flow import UNACKED_BYTES, Playout, Sender, restamp, window
from Daddy.streaming.inputs import Inputs, read_want
from Daddy.streaming.messages import Row, Wish, pack_rows, read_ack
from Daddy.streaming.outbox import Handed
from Daddy.streaming.protocol import BODY_LIMIT, Kind, Message, ProtocolError
from Daddy.streaming.segment import Picture, Segment
from Daddy.streaming.status import Status

_DELAY_WEIGHT = 0.1
_OURS = (Kind.HELLO, Kind.AUTH, Kind.STATUS, Kind.TELEM, Kind.FRAME, Kind.OFFER, Kind.PLAY)


@dataclass(frozen=True, slots=True)
class About:
    """What does not change while a relay runs."""

    run: str
    workload: str
    host: str
    via: str


@dataclass
class Channel:
    """One featured agent on its way to the viewer."""

    stream: int
    sender: Sender = field(default_factory=Sender)
    playout: Playout = field(default_factory=Playout)
    last: Picture | None = None
    inputs: Inputs = field(default_factory=Inputs)


class Programme:
    """Chooses and paces; ``rules`` say how restless the choice may be."""

    def __init__(self, about: About, wish: Wish, rules: Rules) -> None:
        self.about = about
        self.wish = wish
        self.fleet = Fleet()
        self.channels: dict[AgentKey, Channel] = {}
        self._rules = rules
        self._places: tuple[Featured, ...] = ()
        self._streams = 0
        self._delay_s = 0.0
        self._best = 0

    @property
    def featured(self) -> tuple[AgentKey, ...]:
        """The featured agents by place."""
        return tuple(place.key for place in self._places)

    def wanted(self) -> dict[str, frozenset[int]]:
        """Agents whose pictures are wanted, by peer."""
        peers = {key.peer for key in self.featured}
        return {p: frozenset(k.agent for k in self.featured if k.peer == p) for p in peers}

    def absorb(self, segments: Iterable[Segment], now: float) -> None:
        """Take over new segments: telemetry at once, pictures at their own pace."""
        segments = list(segments)
        self.fleet.absorb(segments, now)
        for segment in segments:
            for key, channel in self.channels.items():
                if key.peer == segment.peer:
                    lump = [one for one in segment.pictures if one.agent == key.agent]
                    channel.playout.add([self._on_our_clock(key, one) for one in lump], now)
                    channel.inputs.absorb(self._handed(key, segment), segment.incarnation)

    def _handed(self, key: AgentKey, segment: Segment) -> list[Handed]:
        """The pieces of this agent's play, their time on our clock."""
        return [
            replace(one, captured_ms=self.fleet.captured_ms(key.peer, one.captured_ms))
            for one in segment.pieces
            if one.agent == key.agent
        ]

    def _on_our_clock(self, key: AgentKey, picture: Picture) -> Picture:
        return restamp(picture, self.fleet.captured_ms(key.peer, picture.captured_ms))

    def choose(self, now: float) -> tuple[str, ...]:
        """Choose who is featured; returns a sentence for each change."""
        candidates = self.fleet.candidates()
        self._best = max((score(one.report) for one in candidates), default=0)
        pins = [AgentKey(*pin) for pin in self.wish.pins]
        selection = select(candidates, self._places, self.wish.top_k, now, self._rules, pins)
        self._places = selection.places
        keys = self.featured
        self.channels = {key: one for key, one in self.channels.items() if key in keys}
        for key in keys:
            if key not in self.channels:
                self._streams = self._streams % 0xFFFF + 1
                self.channels[key] = Channel(self._streams)
        return selection.reasons

    def restart(self) -> None:
        """A new viewer: it has no picture yet, so every stream begins anew."""
        for key in self.channels:
            self._streams = self._streams % 0xFFFF + 1
            before = self.channels[key]
            before.inputs.restart()
            self.channels[key] = Channel(self._streams, last=before.last, inputs=before.inputs)

    def hear(self, message: Message) -> None:
        """What the viewer said; ProtocolError when it may not say that."""
        channel = next((c for c in self.channels.values() if c.stream == message.stream), None)
        if message.kind == Kind.ACK:
            seq = read_ack(message.body)
            if channel:
                channel.sender.acked(seq)
        elif message.kind == Kind.NEED_KEY:
            if channel:
                channel.sender.need_key()
        elif message.kind == Kind.WANT:
            want = read_want(message.body)
            if channel:
                channel.inputs.hear(want)
        elif message.kind in _OURS:
            raise ProtocolError(f"a viewer does not send kind {message.kind}")

    def frames(self, now: float, rtt_s: float) -> list[Message]:
        """Frames that are due and that the link has room for."""
        allowed = window(rtt_s, self.wish.fps)
        messages = []
        for channel in self.channels.values():
            for _, picture in channel.playout.due(now):
                if not (self.wish.inputs and channel.inputs.plays):
                    channel.sender.offer(picture)
                channel.last = picture
            if self._unacked() > UNACKED_BYTES:
                continue
            frame = channel.sender.next(now, allowed)
            if frame is not None:
                late = ((round(now * 1000) - frame.captured_ms) % 2**32) / 1000
                self._delay_s += _DELAY_WEIGHT * (late - self._delay_s)
                messages.append(Message(Kind.FRAME, frame.pack(), stream=channel.stream))
        return messages + self._plays(allowed)

    def _plays(self, allowed: int) -> list[Message]:
        """What is played comes after the pictures of others: it is in no hurry."""
        messages: list[Message] = []
        for channel in self.channels.values():
            if self.wish.inputs and self._unacked() <= UNACKED_BYTES:
                messages += channel.inputs.messages(channel.stream, allowed)
        return messages

    def _unacked(self) -> int:
        channels = self.channels.values()
        return sum(one.sender.unacked_bytes() + one.inputs.unacked_bytes() for one in channels)

    def next_due(self) -> float | None:
        """When the next picture is due (monotonic seconds)."""
        return min(
            (due for c in self.channels.values() if (due := c.playout.next_due()) is not None),
            default=None,
        )

    def rows(self, now: float) -> list[Row]:
        """Telemetry of all agents, featured ones first."""
        return self.fleet.rows({key: self.channels[key].stream for key in self.featured}, now)

    def news(self, now: float) -> list[Message]:
        """STATUS and TELEM of this moment."""
        return [
            Message(Kind.STATUS, self.status(now).pack()),
            Message(Kind.TELEM, pack_rows(self.rows(now))),
        ]

    def status(self, now: float) -> Status:
        """The fleet in a few numbers."""
        return Status(
            run=self.about.run,
            workload=self.about.workload,
            host=self.about.host,
            via=self.about.via,
            agents=len(self.fleet.candidates()),
            steps=self.fleet.steps(),
            steps_per_s=self.fleet.steps_per_s(now),
            best=self._best,
            delay_s=self._delay_s,
            peers=self.fleet.table(now),
            maps=self.fleet.maps(self.featured),
        )


def note(text: str) -> Message:
    """A sentence for the person at the viewer."""
    return Message(Kind.NOTE, text.encode()[: BODY_LIMIT[Kind.NOTE]])
