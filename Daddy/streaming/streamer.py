"""Runs the process beside a learner that writes its spool and sends to connected relays.

The streamer runs at the lowest priority and requests each report and picture from the learner, so a
busy streamer makes fewer requests. It ends when its learner ends, for any reason, and ignores
signals, which are meant for the learner. It retries a folder that refuses a write; an error of its
own ends the streamer alone, never the learner.
"""

import argparse
import contextlib
import logging
import os
import select
import signal
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from Daddy.core.arguments import ArgumentParser
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.host_and_processes import die_with_parent
from Daddy.core.log_setup import log_to
from Daddy.core.shared_types import SCREEN_BYTES
from Daddy.streaming.learner.direct_port import DirectPort
from Daddy.streaming.learner.shared_ring import StreamerEnd
from Daddy.streaming.login.stream_folder import SpoolWriter, WatchRequests
from Daddy.streaming.protocol import spool_segment
from Daddy.streaming.protocol.framing import Message

WRITE_EVERY_S = 0.5
WATCHED_WRITE_EVERY_S = 1.0
IDLE_WRITE_EVERY_S = 5.0
"""Seconds between segments: while pictures are wanted; while a viewer watches other agents; without
a viewer, so that a new viewer finds agents to choose from."""
READ_REQUESTS_EVERY_S = 0.25
"""Seconds between reads of the watch requests; while pictures are wanted, with every segment."""
REPORT_EVERY_S = 1.0
RETRY_S = 10.0
_NICEST = 19


class Streamer:
    """Carries a learner's reports and pictures to the spool and to connected relays."""

    def __init__(
        self,
        memory: StreamerEnd,
        stream: Path,
        writer: spool_segment.WriterIdentity,
        clock: Clock,
        fps: float,
        *,
        direct: bool,
    ) -> None:
        self._memory = memory
        memory.set_wanted(())  # clears the wanted agents of a streamer that ended
        self._writer = writer
        self._clock = clock
        self._most_fps = fps
        self._direct = direct
        self._watch_requests = WatchRequests(stream)
        self._spool = SpoolWriter(stream, writer.peer)
        self._packed_reports: spool_segment.PackedReports | None = None
        self._head: list[Message] = []
        self._frames: list[Message] = []
        self._packer = spool_segment.FramePacker()
        self._wanted = frozenset[int]()
        self._watched = False
        self._interval_s = 1.0
        self._due = dict.fromkeys(("requests", "write", "report", "picture"), 0.0)
        self.port = DirectPort(stream, writer, lambda: [*self._head, *self._frames])
        self.failures = self.written = 0

    def serve_until_exit(self, bell: int) -> None:
        """Work until the learner requests the exit; ``bell``: pipe, readable after new entries."""
        ready: list[Any] = []
        while not self._memory.exit_requested:
            pause = self.step(ready)
            sockets: list[Any] = [bell, *self.port.read_sockets]
            ready = select.select(sockets, self.port.write_sockets, [], pause)[0]
            if bell in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(bell, 65536)
        self._read_learner()
        with contextlib.suppress(OSError):
            self._write()
        self.port.close()

    def step(self, ready: Collection[Any] | None = None) -> float:
        """Do one pass; return the seconds until the next. ``ready``: sockets to read; None: all."""
        now = self._clock.monotonic()
        due = min(at for task, at in self._due.items() if task != "picture") <= now
        if ready is None or ready or due or self.port.write_sockets:  # a relay may have room again
            self._exchange(now, ready)
        if self._wanted and self._is_due("picture", now, self._interval_s):
            self._memory.request_wanted_pictures()
        idle = set() if self._wanted else {"picture"}
        idle |= {"report"} if self._packed_reports and not self._watched else set()
        return max(0.0, min(at for task, at in self._due.items() if task not in idle) - now)

    def _exchange(self, now: float, ready: Collection[Any] | None) -> None:
        self._read_learner()
        try:
            if self._is_due("requests", now, READ_REQUESTS_EVERY_S):
                self._read_requests(now)
            if self._is_due("write", now, self._write_every_s()):
                self._write()
            if self._wanted:  # wake once for both
                self._due["requests"] = self._due["write"]
        except OSError:  # the folder refuses: request no pictures, and try again later
            self.failures += 1
            self._set_wanted(frozenset())
            self._due["requests"] = self._due["write"] = now + RETRY_S
        asks = self._watched or self._packed_reports is None
        if asks and self._is_due("report", now, REPORT_EVERY_S):
            self._memory.request_reports()
        self.port.step(now, ready)

    def _is_due(self, task: str, now: float, every_s: float) -> bool:
        due = self._due[task]
        if now < due:
            return False
        self._due[task] = due + every_s if due + every_s > now else now + every_s
        return True

    def _write_every_s(self) -> float:
        if self._wanted:
            return WRITE_EVERY_S
        return WATCHED_WRITE_EVERY_S if self._watched else IDLE_WRITE_EVERY_S

    def _read_learner(self) -> None:
        """Pack the learner's new reports and pictures; send pictures to connected relays."""
        if reports := self._memory.read_reports():
            self._due["write"] = self._due["write"] if self._packed_reports else 0.0
            self._packed_reports = spool_segment.pack_reports(self._writer, reports)
        for record in self._memory.read_pictures():
            whole = len(record.pixels) == SCREEN_BYTES
            if whole and (message := self._packer.pack_frame(record)) is not None:
                self._frames.append(message)
                self.port.broadcast([message])

    def _read_requests(self, now: float) -> None:
        request = self._watch_requests.read_union(now)
        self._interval_s = 1.0 / min(request.fps, self._most_fps)
        self._watched = bool(request.counter)
        wanted = request.wanted.get(self._writer.peer, frozenset())
        if wanted - self._wanted:
            self._due["picture"] = now
            self._due["write"] = min(self._due["write"], now + READ_REQUESTS_EVERY_S)
        self._set_wanted(wanted)
        self._due["write"] = min(self._due["write"], now + self._write_every_s())
        self.port.listen_for(self._watch_requests.hosts if self._direct else frozenset(), now)

    def _set_wanted(self, agents: frozenset[int]) -> None:
        if agents != self._wanted:
            self._wanted = agents
            self._memory.set_wanted(agents)

    def _write(self) -> None:
        """Write the finished segment to the spool; send its first messages to relays."""
        if self._packed_reports is None:
            return
        self._head = spool_segment.pack_head(
            self._packed_reports, round(self._clock.monotonic() * 1000)
        )
        finished, self._frames, self._packer = self._frames, [], spool_segment.FramePacker()
        self.port.broadcast(self._head)
        sequence = self._spool.next_sequence()
        self._spool.write(sequence, spool_segment.pack_file(sequence, [*self._head, *finished]))
        self.written += 1


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(prog="python -m Daddy.streaming.streamer", description=__doc__)
    parser.add_argument("stream", type=Path)
    parser.add_argument("peer")
    for name in ("--job", "--host", "--incarnation"):
        parser.add_argument(name, default="")
    for name in ("--memory", "--bell", "--parent"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--fps", type=float, required=True)
    parser.add_argument("--direct", action="store_true")
    return parser


def main(argv: Sequence[str] | None = None, clock: Clock | None = None) -> int:
    """Serve one learner (``tunnel_client``), which passes two file descriptors."""
    args = _parser().parse_args(argv)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    die_with_parent(args.parent)
    os.nice(_NICEST)
    log_to()
    writer = spool_segment.WriterIdentity(args.peer, args.host, args.job, args.incarnation)
    memory = StreamerEnd(args.memory)
    streamer = Streamer(
        memory, args.stream, writer, clock or SystemClock(), args.fps, direct=args.direct
    )
    try:
        streamer.serve_until_exit(args.bell)
    except Exception:
        logging.getLogger(__name__).exception("the stream's process ends")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
