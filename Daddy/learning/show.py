"""After every step: what the stream asks for, and where agents walk.

Promises to cost nothing measurable: where nobody asks, a note of the agents' places and a look at
one byte. No clock is read here: who streams says when a report or a picture is due. A picture is
drawn when it is asked for, not at every step: environments draw the step after that.
"""

from __future__ import annotations

from dataclasses import replace

from Daddy.learning.session import Session


class Show:
    """What :meth:`after_step` needs to know between two steps."""

    __slots__ = ("_asked", "_asks", "_drawing", "_session", "_telemetry", "walks")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._telemetry = session.parts.vector.telemetry
        self._asks = session.parts.frames.asks
        self._asked = 0
        self._drawing = frozenset[int]()
        self.walks = session.walks if session.walks.watching else None

    def after_step(self, members: slice) -> None:
        """Some environments have made a step."""
        if self.walks is not None:
            self.walks.look(self._telemetry()[members], members.start)
        if self._drawing:
            self._offer()
        elif self._asks[0] != self._asked:
            self._answer()

    def _answer(self) -> None:
        parts, self._asked = self._session.parts, self._asks[0]
        reports, pictures = parts.frames.due()
        if reports:
            report(self._session)
        if pictures:
            self._draw(pictures & frozenset(range(parts.vector.num_envs)))

    def _draw(self, agents: frozenset[int]) -> None:
        self._drawing = agents
        self._session.parts.vector.watch(agents)

    def _offer(self) -> None:
        """All that were asked for, as soon as the last of them is drawn."""
        parts = self._session.parts
        pictures = parts.vector.frames()
        if pictures.keys() >= self._drawing:
            for agent in self._drawing:
                parts.frames.offer(agent, pictures[agent])
            self._draw(frozenset())


def report(session: Session) -> None:
    """How far each agent is: when that is asked for, and now and then after a rollout."""
    session.mark("report")
    parts, steps = session.parts, session.counters.env_steps
    parts.frames.report([replace(one, step=steps) for one in parts.reports(parts.vector)])
