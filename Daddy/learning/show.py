"""After every step: pictures at the viewer's pace, reports about once a second, where agents walk.

Promises to cost nothing measurable: a look at the clock and at the agents' places per step.
"""

from __future__ import annotations

from dataclasses import replace

from Daddy.learning.session import Session

_REPORT_SECONDS = 1.0


class Show:
    """Called after every step of some environments."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._watched: frozenset[int] = frozenset()

    def __call__(self, members: slice) -> None:
        if self._session.walks.watching:
            rows = self._session.parts.vector.telemetry()[members]
            self._session.walks.look(rows, members.start)
        if self._session.is_due("report", _REPORT_SECONDS):
            self._session.mark("report")
            self._report()
        if self._watched and self._session.is_due("frame", self._session.parts.pace.frame_seconds):
            self._session.mark("frame")
            self._offer()

    def _report(self) -> None:
        parts = self._session.parts
        steps = self._session.counters.env_steps
        parts.frames.report([replace(one, step=steps) for one in parts.reports(parts.vector)])
        wanted = parts.frames.wanted()
        if wanted != self._watched:
            parts.vector.watch(wanted)
            self._watched = wanted

    def _offer(self) -> None:
        parts = self._session.parts
        for agent, picture in parts.vector.frames().items():
            parts.frames.offer(agent, picture)
