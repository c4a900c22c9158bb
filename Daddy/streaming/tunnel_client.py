"""The learner's side of the stream: telemetry and wanted pictures into the spool.

:class:`FrameSender` is what ``learning.ports.FrameSink`` asks for. Its three methods only put
something into a slot under a lock that is never held while anything is written or deflated, so
training waits for nothing: not for a slow disk, not for a full one, not for a viewer. A thread does
the rest; when the folder refuses, it counts that and tries again later.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from Daddy.core.clock import Clock, SystemClock
from Daddy.core.machine import host_name
from Daddy.core.names import check_peer, new_incarnation
from Daddy.core.vocabulary import SCREEN_BYTES, AgentReport
from Daddy.streaming.outbox import Handed, Outbox
from Daddy.streaming.seats import Watchers
from Daddy.streaming.segment import PIECES_LIMIT, Picture, Writer, pack_segment
from Daddy.streaming.spool import SpoolWriter

WRITE_EVERY_S = 0.5
IDLE_WRITE_EVERY_S = 5.0
"""Telemetry goes on slowly when nobody watches, so that a viewer finds somebody to choose from."""
RETRY_S = 10.0
_MOST_FAULTS = 2
"""Faults that are no disk's: after one it is tried again, after the second the stream is off."""
MAX_PENDING = 64
"""Pictures between two writes; the oldest is dropped for the newest."""


class FrameSender:
    """Bounded, newest wins, never blocks. Use as a context manager or call :meth:`close`."""

    def __init__(
        self, stream: Path, peer: str, job: str = "", clock: Clock | None = None, host: str = ""
    ) -> None:
        """``stream`` is the run's stream folder (``RunPaths.stream``)."""
        self._clock = clock or SystemClock()
        self._watchers = Watchers(stream)
        self._writer = Writer(check_peer(peer), host or host_name(), job, new_incarnation())
        self._spool = SpoolWriter(stream, peer)
        self._lock = threading.Lock()
        self._reports: dict[int, AgentReport] = {}
        self._pictures: list[Picture] = []
        self._outbox = Outbox()
        self._taken_at: dict[int, float] = {}
        self._wanted: frozenset[int] = frozenset()
        self._taped: frozenset[int] = frozenset()
        self._interval_s = 0.1
        self._written_at = -1e9
        self.failures = 0
        self._faults = 0
        self.dropped = 0
        self.written = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="frame-sender", daemon=True)
        self._thread.start()

    def __enter__(self) -> FrameSender:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def report(self, reports: Sequence[AgentReport]) -> None:
        """How far each agent is; the newest report of each replaces the one before."""
        with self._lock:
            self._reports.update({one.agent: one for one in reports})

    def wanted(self) -> frozenset[int]:
        """Agents whose pictures are wanted now; empty when nobody watches."""
        return self._wanted

    def offer(self, agent: int, picture: bytes) -> None:
        """A picture of a wanted agent; one that comes sooner than asked for is passed over."""
        now = self._clock.monotonic()
        if len(picture) != SCREEN_BYTES or agent not in self._wanted:
            return
        with self._lock:
            if now - self._taken_at.get(agent, -1e9) < self._interval_s:
                return
            self._taken_at[agent] = now
            report = self._reports.get(agent)
            step, episode = (report.step, report.episode) if report else (0, 0)
            self._pictures.append(Picture(agent, step, episode, round(now * 1000), picture))
            while len(self._pictures) > MAX_PENDING:
                del self._pictures[0]
                self.dropped += 1

    def taped(self) -> frozenset[int]:
        """Agents of whom what they play is wanted now."""
        return self._taped

    def play(self, agent: int, piece: bytes) -> None:
        """A piece of what one plays (``core.piece``); of too many the oldest are dropped."""
        now_ms = round(self._clock.monotonic() * 1000)
        with self._lock:
            self._outbox.put(Handed(agent, now_ms, piece))

    def close(self) -> None:
        """Write what is left and end the thread; never waits longer than two seconds."""
        self._stop.set()
        self._thread.join(timeout=2.0)

    def _work(self) -> None:
        wait_s = 0.05
        while self._faults < _MOST_FAULTS and not self._clock.wait(self._stop, wait_s):
            wait_s = WRITE_EVERY_S if self._try(self._pass) else RETRY_S
        if self._faults < _MOST_FAULTS:
            self._try(self._write)

    def _pass(self) -> None:
        self._look()
        every = WRITE_EVERY_S if self._wanted else IDLE_WRITE_EVERY_S
        now = self._clock.monotonic()
        if now - self._written_at >= every and self._write():
            self._written_at = now

    def _try(self, action: Callable[[], object]) -> bool:
        try:
            action()
        except OSError:
            self._give_way()
            return False
        except Exception as error:  # noqa: BLE001 - a fault of ours, which is not training's
            self._give_way()
            self._faults += 1
            if self._faults == _MOST_FAULTS:
                print(f"stream: off until this job ends: {error!r}", file=sys.stderr, flush=True)
            return False
        return True

    def _give_way(self) -> None:
        """The folder refuses: forget what waits and ask training for nothing meanwhile."""
        self.failures += 1
        self._wanted = self._taped = frozenset()
        with self._lock:
            self._pictures.clear()

    def _look(self) -> None:
        wishes = self._watchers.wishes(self._clock.monotonic())
        self._interval_s = 1.0 / wishes.fps
        self._wanted = wishes.wanted.get(self._writer.peer, frozenset())
        self._taped = wishes.taped.get(self._writer.peer, frozenset())

    def _write(self) -> bool:
        with self._lock:
            reports = list(self._reports.values())
            if not reports:
                return False
            pictures, self._pictures = self._pictures, []
            pieces = self._outbox.take(PIECES_LIMIT)
        sequence = self._spool.next_sequence()
        sent_ms = round(self._clock.monotonic() * 1000)
        self._spool.write(
            sequence, pack_segment(sequence, self._writer, sent_ms, reports, pictures, pieces)
        )
        self.written += 1
        return True
