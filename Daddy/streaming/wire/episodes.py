"""Pure: how long the episodes of one peer last, and how much of each agent's is left, as seen."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from statistics import median

from Daddy.streaming.wire.messages import Row

_REMEMBERED = 64
Began = tuple[int, float, bool]
"""An episode's number, when it was first seen, and whether that was its beginning."""


class Episodes:
    """Learns from telemetry; times are monotonic seconds."""

    def __init__(self) -> None:
        self._began: dict[int, Began] = {}
        self._lengths: deque[float] = deque(maxlen=_REMEMBERED)
        self._usual_s = math.inf

    def add(self, rows: Iterable[Row], now: float) -> None:
        """One report of all agents."""
        self._began = {row.agent: self._follow(row, now) for row in rows}

    def _follow(self, row: Row, now: float) -> Began:
        before = self._began.get(row.agent)
        if before is None:
            return (row.episode, now, False)
        number, since, whole = before
        if number == row.episode:
            return before
        if whole and row.episode == number + 1:
            self._lengths.append(now - since)
            self._usual_s = median(self._lengths)
        return (row.episode, now, True)

    def left_s(self, agent: int, now: float) -> float:
        """What is left of its episode if it lasts as long as the median; infinite if unknown."""
        _, since, whole = self._began.get(agent, (0, now, False))
        return self._usual_s - (now - since) if whole else math.inf

    def restart(self) -> None:
        """Another process counts anew; its episodes are of the same kind."""
        self._began.clear()
