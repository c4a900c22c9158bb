"""A relay as a process of its own whose pictures are taken in it, so that the line alone is timed.

The relay's own parts (selection, acknowledged deltas, windows, handshake) without the spool before
them, whose second is measured apart. Its books go into OUT when it is told to end.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.machine_info import die_with_parent
from Daddy.core.shared_types import SCREEN_BYTES, AgentReport
from Daddy.core.stop_reasons import event_on_signals
from Daddy.streaming.best_selector import FeaturingRules
from Daddy.streaming.login.featured_streams import StreamScheduler
from Daddy.streaming.login.relay_connections import OutgoingConnection
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
"""Cells from one agent to the next; those on the same map are three times as far apart."""
KNOWN_AFTER, HASTE_S = 60, 0.07
"""So many cells each, and a crowd of 32 has been everywhere; seconds from one to the next."""
_APART = 40
"""How far the second agent is behind the first in the corpus."""


class Books:
    """What left, how much of it was unacknowledged, and for how long the kernel took nothing."""

    def __init__(self) -> None:
        self.bytes = self.in_flight = self._silent = 0
        self.blocked_s = self.seconds = 0.0

    def sent(self, messages: Sequence[Message]) -> None:
        """Messages that were handed to the link."""
        size = sum(HEADER.size + len(one.body) + MAC_BYTES for one in messages)
        self.bytes, self._silent = self.bytes + size, self._silent + size

    def heard(self) -> None:
        """The viewer has said something: what left before it no longer counts as unheard."""
        self._silent = 0

    def look(self, programme: StreamScheduler, waiting: int, passed_s: float) -> None:
        """After a pass of ``passed_s`` seconds, with ``waiting`` bytes that the kernel refused."""
        unacked = sum(one.sender.unacked_bytes() for one in programme.streams.values())
        self.in_flight = max(self.in_flight, unacked, self._silent)
        self.seconds += passed_s
        self.blocked_s += passed_s if waiting else 0.0


def segment(
    pictures: Sequence[bytes], number: int, now: float, crowd: int = AGENTS, walked: int = 0
) -> Segment:
    """What a job of ``crowd`` agents would have written at this moment: where all of them are, who
    have ``walked`` so many cells of three maps, and a picture of the first few.
    """
    reports = [_report(one, number, walked) for one in range(crowd)]
    shown = [pictures[(number + _APART * one) % len(pictures)] for one in range(AGENTS)]
    stamp = round(now * 1000)
    made = tuple(
        CapturedPicture(agent, number, 0, stamp, stamped(one, now))
        for agent, one in enumerate(shown)
    )
    rows = tuple(row_from_report(one) for one in reports)
    maps = dict(enumerate(_MAPS))
    return Segment(number, "slot-0", "bench", "", "0", stamp, rows, maps, made)


def _report(agent: int, step: int, walked: int) -> AgentReport:
    """Of one who goes through all cells of its map, row by row, as those before it there do."""
    number = agent % len(_MAPS)
    y, x = divmod((_BETWEEN * agent + walked) % _SIDE**2, _SIDE)
    return AgentReport(agent, 0, 0, 0.0, 0, number, _MAPS[number], 5, step, x, y)


def serve(link: OutgoingConnection, programme: StreamScheduler, pictures: Sequence[bytes],
          fps: float, stop: threading.Event, crowd: int = AGENTS) -> Books:  # fmt: skip
    """Until ``stop``: a picture of each agent every ``1 / fps`` s, news once a second. A larger
    ``crowd`` than those on screen first tells quickly where it has been, until the maps are full.
    """
    books, served, number, walked = Books(), 0, 0, 0
    in_haste = KNOWN_AFTER if crowd > AGENTS else 0
    before = due = news_at = time.monotonic()
    while not stop.is_set():
        now = time.monotonic()
        for message in link.step(now):
            books.heard()
            if message.kind != MessageKind.SUBSCRIBE:
                programme.handle_viewer_message(message, now)
        if link.connections != served:
            served = link.connections
            programme.restart_streams()
        if now >= due:
            due, number = max(due + 1 / fps, now), number + 1
            programme.add_segments([segment(pictures, number, now, crowd, walked)], now)
            programme.choose_agents(now)
        if link.established:
            books.look(programme, link.waiting_bytes, now - before)
            tell = now >= news_at
            if tell:
                walked += 1
                news_at = now + (NEWS_EVERY_S if walked > in_haste else HASTE_S)
            messages = [
                *(programme.status_messages(now) if tell else ()),
                *programme.due_frames(now),
            ]
            for one in messages:
                link.send(one)
            books.sent(messages)
            link.flush(now)
        before = now
        link.wait(min(WAIT_S, max(0.0, due - time.monotonic())))
    link.close()
    return books


def main(argv: Sequence[str]) -> int:
    """``OUT PORT TOKEN CORPUS FPS [CROWD]``."""
    die_with_parent()
    stop = event_on_signals(signal.SIGTERM)
    out, port, token, corpus = Path(argv[0]), int(argv[1]), Path(argv[2]), Path(argv[3])
    fps = float(argv[4])
    link = OutgoingConnection("127.0.0.1", port, lambda: load_tokens([token]))
    about = Status("bench", "pokemon_red", "bench", "ssh-R")
    programme = StreamScheduler(about, Subscription(AGENTS, fps), FeaturingRules())
    crowd = int(argv[5]) if len(argv) > 5 else AGENTS
    books = serve(link, programme, read_corpus(corpus), fps, stop, crowd)
    told = {"bytes": books.bytes, "in_flight": books.in_flight,
            "blocked": books.blocked_s / max(1e-9, books.seconds)}  # fmt: skip
    out.write_text(json.dumps(told))
    return 0


def read_corpus(path: Path) -> list[bytes]:
    """Pictures that were written one after the other."""
    return split(path.read_bytes())


def split(data: bytes) -> list[bytes]:
    """Bytes as pictures."""
    return [data[at : at + SCREEN_BYTES] for at in range(0, len(data), SCREEN_BYTES)]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
