"""Pure. Schedules the featured agents' pictures, each agent on a stream of its own.

The scheduler takes segments in and returns messages for the viewer and the agents whose pictures to
request from jobs; the relay moves the bytes and reads the clock.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from Daddy.streaming.best_selector import AgentKey, FeaturedAgent, FeaturingRules, select_top
from Daddy.streaming.login import flow_control
from Daddy.streaming.login.fleet_state import FleetState
from Daddy.streaming.protocol.framing import BODY_LIMIT, Message, MessageKind, ProtocolError
from Daddy.streaming.protocol.messages import MAX_TOP_K, Status, Subscription, pack_rows, read_ack
from Daddy.streaming.protocol.spool_segment import CapturedPicture, Segment

_DELAY_WEIGHT = 0.1
_MOST_LAST_PICTURES = 2 * MAX_TOP_K
_RELAY_KINDS = {MessageKind[name] for name in ("HELLO", "AUTH", "STATUS", "TELEM", "FRAME")}


@dataclass
class FeaturedStream:
    """Holds the stream of a featured agent: its number, and its pictures before they are sent."""

    stream: int
    sender: flow_control.StreamSender
    playout: flow_control.PlayoutBuffer = field(default_factory=flow_control.PlayoutBuffer)


class StreamScheduler:
    """Chooses agents and paces their pictures; ``about`` holds facts of the run that stay."""

    def __init__(self, about: Status, first: Subscription, rules: FeaturingRules) -> None:
        self.about = about
        self.subscription = first
        self.fleet = FleetState()
        self.direct: frozenset[str] = frozenset()
        """Jobs that the relay is connected to; it reads the spool of the others."""
        self.streams: dict[AgentKey, FeaturedStream] = {}
        """The featured agents, by place."""
        self._rules = rules
        self._rate = flow_control.RateController()
        self._places: tuple[FeaturedAgent, ...] = ()
        self._streams = 0
        self._delay_s = 0.0
        self._best = 0
        self._last_pictures: dict[AgentKey, CapturedPicture] = {}
        """The last picture sent of each agent; the least recently sent is dropped first."""

    def wanted_agents(self) -> dict[str, frozenset[int]]:
        peers = {key.peer for key in self.streams}
        return {p: frozenset(k.agent for k in self.streams if k.peer == p) for p in peers}

    def add_segments(self, segments: Iterable[Segment], now: float) -> None:
        """Store new segments: telemetry at once, pictures at the pace of their capture."""
        segments = list(segments)
        self.fleet.add_segments(segments, now)
        for segment in segments:
            for key, featured in self.streams.items():
                if key.peer == segment.peer:
                    shift_ms = self.fleet.clock_offset_ms(key.peer)
                    pictures = [
                        replace(picture, captured_ms=picture.captured_ms + shift_ms)
                        for picture in segment.pictures
                        if picture.agent == key.agent
                    ]
                    featured.playout.add_pictures(pictures, now, direct=key.peer in self.direct)

    def choose_agents(self, now: float) -> tuple[str, ...]:
        """Choose the featured agents and return a sentence for each change."""
        candidates, wanted = self.fleet.candidates(now), self.subscription
        self._best = max((agent.report.score for agent in candidates), default=0)
        pins = [AgentKey(*pin) for pin in wanted.pins]
        selection = select_top(candidates, self._places, wanted.top_k, now, self._rules, pins)
        self._places = selection.places
        keys = [place.key for place in self._places]
        self.streams = {key: self.streams.get(key) or self._new_stream(key) for key in keys}
        return selection.reasons

    def _new_stream(self, key: AgentKey) -> FeaturedStream:
        """Return a new stream that starts with the agent's last picture, if there is one."""
        self._streams = self._streams % 0xFFFF + 1
        featured = FeaturedStream(self._streams, flow_control.StreamSender())
        if key in self._last_pictures:
            featured.sender.set_picture(self._last_pictures[key])
        return featured

    def restart_streams(self) -> None:
        """Replace all streams by new ones for a new viewer, which has no picture yet."""
        self._rate = flow_control.RateController()
        self.streams = {key: self._new_stream(key) for key in self.streams}

    def lacks_picture(self) -> bool:
        return not self.streams.keys() <= self._last_pictures.keys()

    def handle_viewer_message(self, message: Message, now: float) -> tuple[str, ...]:
        """Handle a viewer's message; return notes to show. ProtocolError for a relay's message."""
        featured = next((c for c in self.streams.values() if c.stream == message.stream), None)
        if message.kind == MessageKind.ACK:
            seq = read_ack(message.body)
            rtt_s = featured.sender.handle_ack(seq, now) if featured else None
            return () if rtt_s is None else self._rate.handle_ack(rtt_s, self.subscription.fps, now)
        if message.kind == MessageKind.NEED_KEY:
            if featured:
                featured.sender.require_whole_picture()
        elif message.kind in _RELAY_KINDS:
            raise ProtocolError(f"a viewer does not send kind {message.kind}")
        return ()

    def due_frames(self, now: float) -> list[Message]:
        """Return the due frames; on a congested link only those of one agent."""
        for key, featured in self.streams.items():
            for _, picture in featured.playout.take_due(now):
                featured.sender.set_picture(picture)
                self._last_pictures.pop(key, None)
                self._last_pictures[key] = picture
        while len(self._last_pictures) > _MOST_LAST_PICTURES:
            del self._last_pictures[next(iter(self._last_pictures))]
        streams = list(self.streams.values())
        if self._rate.first_agent_only:
            streams = [s for s in streams if s.sender.is_active(now, flow_control.FREE_S)][:1]
        allowed = flow_control.window_size(self._rate.least_s, self.subscription.fps)
        gap_s = 1 / self._rate.fps if self._rate.fps < self.subscription.fps else 0.0
        messages = []
        for featured in streams:
            if self._unacked() > flow_control.UNACKED_BYTES:
                break
            frame = featured.sender.next_frame(now, allowed, gap_s)
            if frame is not None:
                late = ((round(now * 1000) - frame.captured_ms) % 2**32) / 1000
                self._delay_s += _DELAY_WEIGHT * (late - self._delay_s)
                messages.append(Message(MessageKind.FRAME, frame.to_body(), stream=featured.stream))
        sentences = self._rate.handle_sent(self._unacked(), now)
        return messages + [note_message(text) for text in sentences]

    def _unacked(self) -> int:
        return sum(featured.sender.unacked_bytes() for featured in self.streams.values())

    def next_due(self) -> float:
        """Return the time of the next due picture (monotonic s); infinity if none waits."""
        return min((s.playout.next_due() for s in self.streams.values()), default=math.inf)

    def status_messages(self, now: float) -> list[Message]:
        """Return a STATUS of the run, and a TELEM of all agents, featured ones first."""
        rows = self.fleet.telemetry_rows({key: s.stream for key, s in self.streams.items()}, now)
        status = replace(
            self.about,
            best=self._best,
            delay_s=self._delay_s,
            direct=tuple(sorted(self.direct)),
            **self.fleet.status_fields(self.streams, now),
        )
        telemetry = Message(MessageKind.TELEM, pack_rows(rows))
        return [Message(MessageKind.STATUS, status.to_body()), telemetry]


def note_message(text: str) -> Message:
    """Return a NOTE: a sentence that the viewer shows."""
    return Message(MessageKind.NOTE, text.encode()[: BODY_LIMIT[MessageKind.NOTE]])
