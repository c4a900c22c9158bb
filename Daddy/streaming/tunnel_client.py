"""The learner's side of the stream: reports and wanted pictures into shared memory.

:class:`FrameSender` is what ``learning.interfaces.FrameSink`` asks for. It only copies: a process
of its own (``streamer``) packs, writes and sends, at the lowest priority, and says when it wants
what, so that training needs no clock. That process dies alone: training goes on, and starts another
one, once a minute at most.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from Daddy.core.child_process import Child, spawn_in_session
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.machine_info import host_name
from Daddy.core.name_validation import check_peer, new_incarnation
from Daddy.core.shared_types import SCREEN_BYTES, AgentReport
from Daddy.streaming.learner.shared_ring import LearnerEnd, nameless_file
from Daddy.streaming.protocol.spool_segment import Picture

if TYPE_CHECKING:
    from Daddy.core.settings import StreamingSettings

_log = logging.getLogger(__name__)
START_AGAIN_S = 60.0
_LAST_WORDS_S = 2.0
MOST_FPS = 60.0
FEATURED_FPS = 8.0
"""Most pictures a second of a featured agent; a slow line gets fewer (`login.flow_control`)."""


class FrameSender:
    """Bounded, newest wins, never blocks. Use as a context manager or call :meth:`close`."""

    def __init__(
        self,
        stream: Path,
        peer: str,
        job: str = "",
        clock: Clock | None = None,
        host: str = "",
        fps: float = MOST_FPS,
        *,
        direct: bool = True,
    ) -> None:
        """``stream``: the run's stream folder; ``fps``: the most; ``direct``: with a port."""
        self._clock = clock or SystemClock()
        self._file = nameless_file()
        self._memory = LearnerEnd(self._file)
        self._ears, self._bell = os.pipe()
        os.set_blocking(self._ears, False)
        os.set_blocking(self._bell, False)
        self._argv = [
            *(sys.executable, "-m", "Daddy.streaming.streamer", str(stream), check_peer(peer)),
            *("--job", job, "--host", host or host_name(), "--fps", str(fps)),
            *("--incarnation", new_incarnation(), "--parent", str(os.getpid())),
            *("--memory", str(self._file), "--bell", str(self._ears)),
            *(("--direct",) if direct else ()),
        ]
        self._reports: dict[int, AgentReport] = {}
        self._offered: dict[int, int] = {}
        self.asks = self._memory.asks
        """A byte that changes when anything is asked for; :meth:`due` says what."""
        self._reported = self._begun = 0
        self._closed = False
        self.streamer = self._start()

    def __enter__(self) -> FrameSender:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def due(self) -> tuple[bool, frozenset[int]]:
        """(reports are due, agents whose pictures are due); each is told once."""
        memory = self._memory
        reports, pictures = memory.report_ask, memory.picture_ask
        told = reports != self._reported, pictures != self._begun
        self._reported, self._begun = reports, pictures
        return told[0], memory.wanted() if told[1] else frozenset()

    def wanted(self) -> frozenset[int]:
        """Agents whose pictures are wanted now; empty when nobody watches."""
        return self._memory.wanted()

    def report(self, reports: Sequence[AgentReport]) -> None:
        """Progress of each agent; the newest report of each replaces the one before."""
        self._look_after()
        self._reports.update({one.agent: one for one in reports})
        self._memory.report(list(self._reports.values()))
        self._ring()

    def offer(self, agent: int, picture: bytes) -> None:
        """A picture of a wanted agent; one that was not asked for is passed over."""
        ask = self._memory.picture_ask
        if self._offered.get(agent) == ask or not self._memory.wants(agent):
            return
        if len(picture) != SCREEN_BYTES:
            return
        self._offered[agent] = ask
        report = self._reports.get(agent)
        step, episode = (report.step, report.episode) if report else (0, 0)
        now_ms = round(self._clock.monotonic() * 1000)
        self._memory.put(Picture(agent, step, episode, now_ms, picture))
        self._ring()

    def close(self) -> None:
        """Have the rest written; a streamer that has not ended within two seconds is killed."""
        if self._closed:
            return
        self._closed = True
        self._memory.say_goodbye()
        self._ring()
        if self.streamer and not self.streamer.wait(_LAST_WORDS_S):
            self.streamer.signal(signal.SIGKILL)
            self.streamer.wait(_LAST_WORDS_S)
        self._memory.close()
        for descriptor in (self._file, self._ears, self._bell):
            os.close(descriptor)

    def _ring(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it has been rung often enough
            os.write(self._bell, b"!")

    def _look_after(self) -> None:
        """Start the streamer again if it has ended, and want nothing until it does."""
        if self.streamer and not self.streamer.wait(0.0):
            return
        self._memory.want_nothing()
        if self._clock.monotonic() >= self._again_at:
            code = self.streamer.exit_code if self.streamer else None
            _log.warning("the stream's process ended (%s): it is started again", code)
            self.streamer = self._start()

    def _start(self) -> Child | None:
        self._again_at = self._clock.monotonic() + START_AGAIN_S
        try:
            return spawn_in_session(self._argv, [self._file, self._ears])
        except OSError as error:
            _log.warning("the stream is off for now: %s", error)
            return None


def frame_sender(
    stream: Path, peer: str, training: StreamingSettings, clock: Clock, job: str = ""
) -> FrameSender | None:
    """A sender as the settings want it; None, and a word why, where none can be set up."""
    try:
        return FrameSender(
            stream, peer, job, clock, fps=FEATURED_FPS, direct=training.stream_direct
        )
    except OSError as error:
        _log.warning("the stream is off: %s", error)
        return None
