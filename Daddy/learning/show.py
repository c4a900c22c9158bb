"""After every step: pictures at the viewer's pace, reports about once a second, where agents walk.

Promises to cost nothing measurable: a look at the clock and at the agents' places per step. A
picture is drawn when it is due, not at every step: environments draw the step after it was asked
for.
"""

from __future__ import annotations

from dataclasses import replace

from Daddy.learning.session import Session

_REPORT_SECONDS = 1.0


class Show:
    """Called after every step of some environments."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._clock = session.parts.clock
        self._watched: frozenset[int] = frozenset()
        self._drawing: frozenset[int] = frozenset()
        self._taped: frozenset[int] = frozenset()
        self._report_at = self._frame_at = self._look_at = float("-inf")

    def __call__(self, members: slice) -> None:
        if self._session.walks.watching:
            rows = self._session.parts.vector.telemetry()[members]
            self._session.walks.look(rows, members.start)
        if self._taped:
            self._play(members)
        now = self._clock.monotonic()
        if now >= self._look_at:
            self._look(now)

    def _look(self, now: float) -> None:
        """Do what is due; whoever is called hundreds of times a second compares one number."""
        if now >= self._report_at:
            self._report_at = now + _REPORT_SECONDS
            self._report()
        if self._drawing:
            self._offer()
        elif self._watched and now >= self._frame_at:
            self._frame_at = now + self._session.parts.pace.frame_seconds
            self._draw(self._watched)
        frame_at = self._frame_at if self._watched else self._report_at
        self._look_at = now if self._drawing else min(self._report_at, frame_at)

    def _play(self, members: slice) -> None:
        """Hand on what was played; whoever wants none costs a comparison."""
        parts = self._session.parts
        for agent, piece in parts.vector.pieces(members).items():
            parts.frames.play(agent, piece)

    def _draw(self, agents: frozenset[int]) -> None:
        self._drawing = agents
        self._session.parts.vector.watch(agents)

    def _report(self) -> None:
        parts = self._session.parts
        steps = self._session.counters.env_steps
        parts.frames.report([replace(one, step=steps) for one in parts.reports(parts.vector)])
        wanted = parts.frames.wanted() & frozenset(range(parts.vector.num_envs))
        if wanted != self._watched:
            self._watched = wanted
            self._draw(frozenset())
        taped = parts.frames.taped() & frozenset(range(parts.vector.num_envs))
        if taped != self._taped:
            self._taped = taped
            parts.vector.tape(taped)

    def _offer(self) -> None:
        """All that were asked for, as soon as the last of them is drawn."""
        parts = self._session.parts
        pictures = parts.vector.frames()
        if pictures.keys() >= self._drawing:
            for agent in self._drawing:
                parts.frames.offer(agent, pictures[agent])
            self._draw(frozenset())
