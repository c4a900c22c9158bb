"""The process beside a learner that writes its spool, and tells it to relays that are connected.

It runs at the lowest priority and says when a report or a picture is due, so that a learner with a
busy streamer is asked less often. It ends with its learner, however that ends; signals are meant
for the learner. A folder that refuses is tried again; a fault of ours ends this process alone.
"""

from __future__ import annotations

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

from Daddy.core.clock import Clock, SystemClock
from Daddy.core.log_setup import log_to
from Daddy.core.machine_info import die_with_parent
from Daddy.core.shared_types import SCREEN_BYTES
from Daddy.streaming.learner.direct_port import Port
from Daddy.streaming.learner.shared_ring import StreamerEnd
from Daddy.streaming.login.spool import SpoolWriter, Watchers
from Daddy.streaming.protocol.framing import Message
from Daddy.streaming.protocol.spool_segment import (
    Packer,
    Told,
    Writer,
    pack_head,
    pack_reports,
    seal,
)

WRITE_EVERY_S = 0.5
WATCHED_WRITE_EVERY_S = 1.0
IDLE_WRITE_EVERY_S = 5.0
"""While pictures are wanted; while somebody watches others; while nobody watches, so that a viewer
finds somebody to choose from."""
LOOK_EVERY_S = 0.25
"""For wishes, while nobody wants pictures from here; while somebody does, with every write."""
REPORT_EVERY_S = 1.0
RETRY_S = 10.0
_NICEST = 19


class Streamer:
    """Carries a learner's words from its memory to the spool and to connected relays."""

    def __init__(
        self,
        memory: StreamerEnd,
        stream: Path,
        writer: Writer,
        clock: Clock,
        fps: float,
        *,
        direct: bool,
    ) -> None:
        self._memory = memory
        memory.want(())  # what a predecessor wanted is its own
        self._writer = writer
        self._clock = clock
        self._most_fps = fps
        self._direct = direct
        self._watchers = Watchers(stream)
        self._spool = SpoolWriter(stream, writer.peer)
        self._told: Told | None = None
        self._head: list[Message] = []
        self._frames: list[Message] = []
        self._packer = Packer()
        self._wanted = frozenset[int]()
        self._watched = False
        self._interval_s = 1.0
        self._due = dict.fromkeys(("look", "write", "report", "picture"), 0.0)
        self.port = Port(stream, writer, lambda: [*self._head, *self._frames])
        self.failures = self.written = 0

    def run(self, bell: int) -> None:
        """Work until the learner says goodbye; ``bell`` can be read when there is something new."""
        heard: list[Any] = []
        while not self._memory.closing:
            pause = self.step(heard)
            ears: list[Any] = [bell, *self.port.ears]
            heard = select.select(ears, self.port.speaking, [], pause)[0]
            if bell in heard:
                with contextlib.suppress(BlockingIOError):
                    os.read(bell, 65536)
        self._take()
        with contextlib.suppress(OSError):
            self._write()
        self.port.close()

    def step(self, heard: Collection[Any] | None = None) -> float:
        """One pass; returns the seconds until the next is needed. ``heard``: as a listener's."""
        now = self._clock.monotonic()
        due = min(at for what, at in self._due.items() if what != "picture") <= now
        if heard is None or heard or due or self.port.speaking:  # a relay may have room again
            self._attend(now, heard)
        if self._wanted and self._is_due("picture", now, self._interval_s):
            self._memory.ask_pictures()
        idle = set() if self._wanted else {"picture"}
        idle |= {"report"} if self._told and not self._watched else set()
        return max(0.0, min(at for what, at in self._due.items() if what not in idle) - now)

    def _attend(self, now: float, heard: Collection[Any] | None) -> None:
        """Exchange with the learner, the folder and the relays."""
        self._take()
        try:
            if self._is_due("look", now, LOOK_EVERY_S):
                self._look(now)
            if self._is_due("write", now, self._write_every_s()):
                self._write()
            if self._wanted:  # both with one waking
                self._due["look"] = self._due["write"]
        except OSError:  # the folder refuses: want nothing, and try again later
            self.failures += 1
            self._want(frozenset())
            self._due["look"] = self._due["write"] = now + RETRY_S
        asks = self._watched or self._told is None
        if asks and self._is_due("report", now, REPORT_EVERY_S):
            self._memory.ask_report()
        self.port.step(now, heard)

    def _is_due(self, what: str, now: float, every_s: float) -> bool:
        due = self._due[what]
        if now < due:
            return False
        self._due[what] = due + every_s if due + every_s > now else now + every_s
        return True

    def _write_every_s(self) -> float:
        if self._wanted:
            return WRITE_EVERY_S
        return WATCHED_WRITE_EVERY_S if self._watched else IDLE_WRITE_EVERY_S

    def _take(self) -> None:
        """Take the learner's reports and pictures since the last time."""
        if reports := self._memory.reports():
            self._due["write"] = self._due["write"] if self._told else 0.0
            self._told = pack_reports(self._writer, reports)
        for record in self._memory.records():
            whole = len(record.pixels) == SCREEN_BYTES
            if whole and (message := self._packer.pack(record)) is not None:
                self._frames.append(message)
                self.port.tell([message])

    def _look(self, now: float) -> None:
        """Read the wish lists."""
        wishes = self._watchers.wishes(now)
        self._interval_s = 1.0 / min(wishes.fps, self._most_fps)
        self._watched = bool(wishes.counter)
        wanted = wishes.wanted.get(self._writer.peer, frozenset())
        if wanted - self._wanted:
            self._due["picture"] = now
            self._due["write"] = min(self._due["write"], now + LOOK_EVERY_S)
        self._want(wanted)
        self._due["write"] = min(self._due["write"], now + self._write_every_s())
        self.port.look(self._watchers.hosts if self._direct else frozenset(), now)

    def _want(self, agents: frozenset[int]) -> None:
        if agents != self._wanted:
            self._wanted = agents
            self._memory.want(agents)

    def _write(self) -> None:
        """The segment that is over into the spool, and the next one's head to who is connected."""
        if self._told is None:
            return
        self._head = pack_head(self._told, round(self._clock.monotonic() * 1000))
        over, self._frames, self._packer = self._frames, [], Packer()
        self.port.tell(self._head)
        sequence = self._spool.next_sequence()
        self._spool.write(sequence, seal(sequence, [*self._head, *over]))
        self.written += 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m Daddy.streaming.streamer", description=__doc__)
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
    """Entry: started by a learner (``tunnel_client``), with two descriptors of its."""
    args = _parser().parse_args(argv)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    die_with_parent(args.parent)
    os.nice(_NICEST)
    log_to()
    writer = Writer(args.peer, args.host, args.job, args.incarnation)
    memory = StreamerEnd(args.memory)
    streamer = Streamer(
        memory, args.stream, writer, clock or SystemClock(), args.fps, direct=args.direct
    )
    try:
        streamer.run(args.bell)
    except Exception:
        logging.getLogger(__name__).exception("the stream's process ends")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
