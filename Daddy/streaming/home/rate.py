"""Pure: how often a second something comes, of late."""

from __future__ import annotations

from collections import deque

_OF_LATE_S = 5.0
_MOST = 360
"""Arrivals that are kept: as many as come at 60 a second, and some."""


class Rate:
    """Told of each arrival; ``now`` is monotonic seconds."""

    def __init__(self) -> None:
        self._arrivals: deque[float] = deque(maxlen=_MOST)

    def add(self, now: float) -> None:
        """One has come."""
        self._arrivals.append(now)

    def per_second(self, now: float) -> float:
        """How many a second over the last five; those before are forgotten."""
        while self._arrivals and now - self._arrivals[0] > _OF_LATE_S:
            self._arrivals.popleft()
        return len(self._arrivals) / _OF_LATE_S
