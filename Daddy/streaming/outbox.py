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

    def waiting(self) -> list[Handed]:
        """All that would be taken now if there were room; each agent's oldest first."""
        return [one for waiting in self._waiting.values() for one, _ in waiting]

    def take(self, room: int, head: int = 0) -> list[Handed]:
        """Pieces for the next segment, at most ``room`` bytes; each agent's oldest first.

        A piece takes ``head`` bytes beyond its own.
        """
        taken: list[Handed] = []
        for agent, waiting in list(self._waiting.items()):
            kept: deque[tuple[Handed, int]] = deque(maxlen=MOST_PIECES)
            for one, times in waiting:
                size = head + len(one.piece)
                fits = size <= room
                room -= size if fits else room
                taken += [one] * fits
                if times > fits:
                    kept.append((one, times - fits))
            self._waiting[agent] = kept
            if not kept:
                del self._waiting[agent]
        return taken
