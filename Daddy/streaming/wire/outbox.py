"""Pure: pieces of play that wait to be written, and are written more than once.

A reader may miss one segment in a row of them (two files take turns); a piece is small, so it goes
into the next few, and who has it already passes it over. Bounded for each agent: of too many the
oldest are dropped, and the gap shows in the pieces' numbers.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

MOST_PIECES = 64
"""Of one agent: 256 steps each."""
MOST_AGENTS = 64
TIMES = 4
"""Segments that a piece is written into."""


@dataclass(frozen=True, slots=True)
class Handed:
    """A piece of an agent's play, at ``captured_ms`` of the writer's monotonic clock."""

    agent: int
    captured_ms: int
    piece: bytes


class Outbox:
    """Of one writer, for all its agents."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[tuple[Handed, int]]] = {}

    def put(self, one: Handed) -> None:
        """The newest piece of an agent."""
        if one.agent in self._waiting or len(self._waiting) < MOST_AGENTS:
            waiting = self._waiting.setdefault(one.agent, deque(maxlen=MOST_PIECES))
            waiting.append((one, TIMES))

    def waiting(self, room: int, head: int = 0) -> list[Handed]:
        """What would be taken now; see :meth:`take`."""
        return [one for part in self._fitting(room, head).values() for one in part]

    def take(self, room: int, head: int = 0) -> list[Handed]:
        """Pieces for the next segment, at most ``room`` bytes; each agent's oldest first.

        A piece takes ``head`` bytes beyond its own. Who was served comes last the next time.
        """
        parts = self._fitting(room, head)
        for agent, part in parts.items():
            waiting = list(self._waiting.pop(agent))
            again = [(one, times - 1) for one, times in waiting[: len(part)] if times > 1]
            left = again + waiting[len(part) :]
            if left:
                self._waiting[agent] = deque(left, maxlen=MOST_PIECES)
        return [one for part in parts.values() for one in part]

    def _fitting(self, room: int, head: int) -> dict[int, list[Handed]]:
        """What fits, in turn, up to the first piece that does not."""
        parts: dict[int, list[Handed]] = {}
        for agent, waiting in self._waiting.items():
            for one, _ in waiting:
                room -= head + len(one.piece)
                if room < 0:
                    return parts
                parts.setdefault(agent, []).append(one)
        return parts
