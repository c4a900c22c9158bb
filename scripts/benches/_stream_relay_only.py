"""Runs a relay that takes the pictures in its own process, so that only the link is timed.

It uses the relay's own parts (selection, acknowledged deltas, windows, handshake) without the spool
before them, whose delay is measured separately. It writes its counts into OUT when terminated.
"""

import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.host_and_processes import die_with_parent
from Daddy.core.shared_types import SCREEN_BYTES, AgentReport
from Daddy.core.stop_conditions import event_on_signals
from Daddy.streaming.best_selector import FeaturingRules
from Daddy.streaming.login.relay_connections import OutgoingConnection
from Daddy.streaming.login.stream_scheduler import StreamScheduler
from Daddy.streaming.protocol.framing import HEADER, MAC_BYTES, Message, MessageKind
from Daddy.streaming.protocol.handshake import load_tokens
from Daddy.streaming.protocol.messages import Status, Subscription, row_from_report
from Daddy.streaming.protocol.spool_segment import CapturedPicture, Segment
from scripts.benches._stream_watcher import AGENTS, stamped

NEWS_EVERY_S = 1.0
WAIT_S = 0.005
_MAPS = ("Fern Hollow", "Slate Town", "Long Road North")
_SIDE = 20
_BETWEEN = 13
"""Cells between two agents; agents on the same map are three times as far apart."""
KNOWN_AFTER, HASTE_S = 60, 0.07
"""Cells that each of 32 agents walks until all maps are known; seconds between two of them."""
_APART = 40
"""Pictures by which the second agent is behind the first in the corpus."""


class SendCounts:
    """Counts sent and unacknowledged bytes, and the time for which the kernel took none."""

    def __init__(self) -> None:
        self.bytes = self.in_flight = self._silent = 0
        self.blocked_s = self.seconds = 0.0

    def add_sent(self, messages: Sequence[Message]) -> None:
        """Add messages that were given to the link."""
        size = sum(HEADER.size + len(message.body) + MAC_BYTES for message in messages)
        self.bytes, self._silent = self.bytes + size, self._silent + size

    def add_reply(self) -> None:
        """Note a message of the viewer: bytes sent before it no longer count as in flight."""
        self._silent = 0

    def add_pass(self, scheduler: StreamScheduler, waiting: int, passed_s: float) -> None:
        """Add a pass of ``passed_s`` seconds, after which ``waiting`` bytes were not sent."""
        streams = scheduler.streams.values()
        unacked = sum(featured.sender.unacked_bytes() for featured in streams)
        self.in_flight = max(self.in_flight, unacked, self._silent)
        self.seconds += passed_s
        self.blocked_s += passed_s if waiting else 0.0


def segment(
    pictures: Sequence[bytes], number: int, now: float, crowd: int = AGENTS, walked: int = 0
) -> Segment:
    """Return the segment of a job of ``crowd`` agents, each of which has ``walked`` that many cells
    of three maps, with a picture of each of the first ``AGENTS``.
    """
    reports = [_report(agent, number, walked) for agent in range(crowd)]
    shown = [pictures[(number + _APART * agent) % len(pictures)] for agent in range(AGENTS)]
    stamp = round(now * 1000)
    taken = tuple(
        CapturedPicture(agent, number, 0, stamp, stamped(picture, now))
        for agent, picture in enumerate(shown)
    )
    rows = tuple(row_from_report(report) for report in reports)
    maps = dict(enumerate(_MAPS))
    return Segment(number, "slot-0", "bench", "", "0", stamp, rows, maps, taken)


def _report(agent: int, step: int, walked: int) -> AgentReport:
    """Return the report of an agent that walks through all cells of its map, row by row."""
    number = agent % len(_MAPS)
    y, x = divmod((_BETWEEN * agent + walked) % _SIDE**2, _SIDE)
    return AgentReport(agent, 0, 0, 0.0, 0, number, _MAPS[number], 5, step, x, y)


def serve(link: OutgoingConnection, scheduler: StreamScheduler, pictures: Sequence[bytes],
          fps: float, stop: threading.Event, crowd: int = AGENTS) -> SendCounts:  # fmt: skip
    """Send each shown agent's picture every ``1 / fps`` s and a status every second until ``stop``.

    A ``crowd`` of more agents than shown reports its walk quickly first, until all maps are known.
    """
    counts, served, number, walked = SendCounts(), 0, 0, 0
    in_haste = KNOWN_AFTER if crowd > AGENTS else 0
    before = due = news_at = time.monotonic()
    while not stop.is_set():
        now = time.monotonic()
        for message in link.step(now):
            counts.add_reply()
            if message.kind != MessageKind.SUBSCRIBE:
                scheduler.handle_viewer_message(message, now)
        if link.connections != served:
            served = link.connections
            scheduler.restart_streams()
        if now >= due:
            due, number = max(due + 1 / fps, now), number + 1
            scheduler.add_segments([segment(pictures, number, now, crowd, walked)], now)
            scheduler.choose_agents(now)
        if link.established:
            counts.add_pass(scheduler, link.waiting_bytes, now - before)
            reports = now >= news_at
            if reports:
                walked += 1
                news_at = now + (NEWS_EVERY_S if walked > in_haste else HASTE_S)
            messages = [
                *(scheduler.status_messages(now) if reports else ()),
                *scheduler.due_frames(now),
            ]
            for message in messages:
                link.send(message)
            counts.add_sent(messages)
            link.flush(now)
        before = now
        link.wait(min(WAIT_S, max(0.0, due - time.monotonic())))
    link.close()
    return counts


def main(argv: Sequence[str]) -> int:
    """``OUT PORT TOKEN CORPUS FPS [CROWD]``: serve until SIGTERM, then write the counts."""
    die_with_parent()
    stop = event_on_signals(signal.SIGTERM)
    out, port, token, corpus = Path(argv[0]), int(argv[1]), Path(argv[2]), Path(argv[3])
    fps = float(argv[4])
    link = OutgoingConnection("127.0.0.1", port, lambda: load_tokens([token]))
    about = Status("bench", "pokemon_red", "bench", "ssh-R")
    scheduler = StreamScheduler(about, Subscription(AGENTS, fps), FeaturingRules())
    crowd = int(argv[5]) if len(argv) > 5 else AGENTS
    counts = serve(link, scheduler, read_corpus(corpus), fps, stop, crowd)
    facts = {"bytes": counts.bytes, "in_flight": counts.in_flight,
            "blocked": counts.blocked_s / max(1e-9, counts.seconds)}  # fmt: skip
    out.write_text(json.dumps(facts))
    return 0


def read_corpus(path: Path) -> list[bytes]:
    """Return the pictures of a file that holds one after the other."""
    return split(path.read_bytes())


def split(data: bytes) -> list[bytes]:
    """Split bytes into pictures."""
    return [data[at : at + SCREEN_BYTES] for at in range(0, len(data), SCREEN_BYTES)]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
