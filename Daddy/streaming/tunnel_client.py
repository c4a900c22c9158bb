"""Copies a learner's reports and wanted pictures into memory shared with its streamer.

:class:`FrameSender` implements ``learning.interfaces.FrameSink``. It only copies: the process
``streamer`` packs, writes and sends at the lowest priority, and requests each report and picture,
so training needs no clock. A streamer that ends is started again, at most once a minute.
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

from Daddy.core.clock import Clock, SystemClock
from Daddy.core.host_and_processes import host_name
from Daddy.core.name_validation import check_peer, new_incarnation
from Daddy.core.run_subprocess import Child, spawn_in_session
from Daddy.core.shared_types import SCREEN_BYTES, AgentReport
from Daddy.streaming.learner.shared_ring import LearnerEnd, nameless_file
from Daddy.streaming.protocol.spool_segment import CapturedPicture

if TYPE_CHECKING:
    from Daddy.core.settings import StreamingSettings

_log = logging.getLogger(__name__)
START_AGAIN_S = 60.0
_EXIT_S = 2.0
MOST_FPS = 60.0
FEATURED_FPS = 8.0
"""Most pictures a second of a featured agent; a slow link gets fewer (`login.flow_control`)."""


class FrameSender:
    """Sends reports and pictures to the streamer; never blocks; new ones replace older ones."""

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
        """Start the streamer. ``fps``: most pictures a second; ``direct``: it opens a port."""
        self._clock = clock or SystemClock()
        self._file = nameless_file()
        self._memory = LearnerEnd(self._file)
        self._bell_reader, self._bell = os.pipe()
        os.set_blocking(self._bell_reader, False)
        os.set_blocking(self._bell, False)
        self._argv = [
            *(sys.executable, "-m", "Daddy.streaming.streamer", str(stream), check_peer(peer)),
            *("--job", job, "--host", host or host_name(), "--fps", str(fps)),
            *("--incarnation", new_incarnation(), "--parent", str(os.getpid())),
            *("--memory", str(self._file), "--bell", str(self._bell_reader)),
            *(("--direct",) if direct else ()),
        ]
        self._reports: dict[int, AgentReport] = {}
        self._offered: dict[int, int] = {}
        self.request_counter = self._memory.request_byte
        """A byte that changes with every request; :meth:`poll_requests` returns the requests."""
        self._last_reports = self._last_pictures = 0
        self._closed = False
        self.streamer = self._start()

    def __enter__(self) -> FrameSender:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def poll_requests(self) -> tuple[bool, frozenset[int]]:
        """Return (True if reports are due, agents whose pictures are due), each request once."""
        memory = self._memory
        reports, pictures = memory.report_request, memory.picture_request
        new_reports, new_pictures = reports != self._last_reports, pictures != self._last_pictures
        self._last_reports, self._last_pictures = reports, pictures
        return new_reports, memory.wanted_agents() if new_pictures else frozenset()

    def wanted_agents(self) -> frozenset[int]:
        """Return the agents whose pictures are wanted now; empty without a viewer."""
        return self._memory.wanted_agents()

    def send_reports(self, reports: Sequence[AgentReport]) -> None:
        """Write the agents' reports; each replaces the same agent's older report."""
        self._restart_if_ended()
        self._reports.update({report.agent: report for report in reports})
        self._memory.write_reports(list(self._reports.values()))
        self._ring_bell()

    def send_picture(self, agent: int, picture: bytes) -> None:
        """Write a picture of a wanted agent; ignore one that was not requested."""
        request = self._memory.picture_request
        if self._offered.get(agent) == request or not self._memory.is_wanted(agent):
            return
        if len(picture) != SCREEN_BYTES:
            return
        self._offered[agent] = request
        report = self._reports.get(agent)
        step, episode = (report.step, report.episode) if report else (0, 0)
        now_ms = round(self._clock.monotonic() * 1000)
        self._memory.write_picture(CapturedPicture(agent, step, episode, now_ms, picture))
        self._ring_bell()

    def close(self) -> None:
        """End the streamer after it wrote the rest; kill it if that takes over two seconds."""
        if self._closed:
            return
        self._closed = True
        self._memory.request_exit()
        self._ring_bell()
        if self.streamer and not self.streamer.wait(_EXIT_S):
            self.streamer.signal(signal.SIGKILL)
            self.streamer.wait(_EXIT_S)
        self._memory.close()
        for descriptor in (self._file, self._bell_reader, self._bell):
            os.close(descriptor)

    def _ring_bell(self) -> None:
        with contextlib.suppress(BlockingIOError):  # the pipe is full of earlier signals
            os.write(self._bell, b"!")

    def _restart_if_ended(self) -> None:
        """Start an ended streamer again, once a minute at most; until then want no picture."""
        if self.streamer and not self.streamer.wait(0.0):
            return
        self._memory.clear_wanted()
        if self._clock.monotonic() >= self._restart_at:
            code = self.streamer.exit_code if self.streamer else None
            _log.warning("the stream's process ended (%s): it is started again", code)
            self.streamer = self._start()

    def _start(self) -> Child | None:
        self._restart_at = self._clock.monotonic() + START_AGAIN_S
        try:
            return spawn_in_session(self._argv, [self._file, self._bell_reader])
        except OSError as error:
            _log.warning("the stream is off for now: %s", error)
            return None


def frame_sender(
    stream: Path, peer: str, training: StreamingSettings, clock: Clock, job: str = ""
) -> FrameSender | None:
    """Return a sender for these settings; log the reason and return None if none can be made."""
    try:
        return FrameSender(
            stream, peer, job, clock, fps=FEATURED_FPS, direct=training.stream_direct
        )
    except OSError as error:
        _log.warning("the stream is off: %s", error)
        return None
