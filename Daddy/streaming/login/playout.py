"""Pure: pictures that arrive in lumps, played at the pace at which they were taken.

A spool hands over half a second of play at once. Shown as it comes it would be a slide show; so all
of an agent is shown by the same amount later than it was taken: as much as the latest of the last
seconds was late when it arrived. More at once where that is not enough, less bit by bit. What comes
straight from a job comes one by one, and is shown as soon as it is here.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from Daddy.streaming.wire.segment import Picture

MEMORY_S = 30.0
"""How late pictures were is remembered for so long."""
LONGEST_S = 3.0
"""Later than that is not made up for: what was taken before is dropped."""
CATCH_UP = 0.8
"""Of its time between two pictures is taken while there is more delay than is needed."""


class Playout:
    """Add pictures as they arrive, take them when they are due; times are monotonic seconds."""

    def __init__(self) -> None:
        self._queue: deque[tuple[float, Picture]] = deque()
        self._lateness: deque[tuple[float, float]] = deque()
        self._last: tuple[float, int] | None = None
        self._direct = False

    def __len__(self) -> int:
        return len(self._queue)

    def hurry(self, *, direct: bool) -> None:
        """Pictures come one by one now, or in lumps: how late lumps were is forgotten then."""
        if direct:
            self._lateness.clear()
        self._direct = direct

    def add(self, pictures: list[Picture], now: float) -> None:
        """Queue what has arrived: oldest first, ``captured_ms`` on the clock of ``now``."""
        if not pictures:
            return
        delay_s = 0.0 if self._direct else self._needed_s(pictures[0], now)
        for picture in pictures:
            due = now + delay_s - _late_s(picture, now)
            if due < now and picture is not pictures[-1]:
                continue  # taken so long before that it would only flash by
            self._put(picture, now, max(now, due))

    def _needed_s(self, oldest: Picture, now: float) -> float:
        """As much as the oldest picture of the latest lump was late."""
        self._lateness.append((now, min(LONGEST_S, _late_s(oldest, now))))
        while now - self._lateness[0][0] > MEMORY_S:
            self._lateness.popleft()
        return max(late for _, late in self._lateness)

    def _put(self, picture: Picture, now: float, due: float) -> None:
        """Not before its time, nor nearer to the one before than catching up allows."""
        if self._last is not None:
            before, captured_ms = self._last
            gap_s = ((picture.captured_ms - captured_ms) % 2**32) / 1000
            if gap_s <= LONGEST_S:
                due = min(max(due, before + CATCH_UP * gap_s), now + LONGEST_S)
        self._last = (due, picture.captured_ms)
        self._queue.append((due, picture))

    def due(self, now: float) -> list[tuple[float, Picture]]:
        """Pictures whose time has come, with it, oldest first."""
        ready = []
        while self._queue and self._queue[0][0] <= now:
            ready.append(self._queue.popleft())
        return ready

    def next_due(self) -> float | None:
        """When the next picture is due; None when nothing waits."""
        return self._queue[0][0] if self._queue else None


def _late_s(picture: Picture, now: float) -> float:
    """How long ago it was taken; 0 where the clocks say that it will be."""
    late_ms = (round(now * 1000) - picture.captured_ms) % 2**32
    return 0.0 if late_ms >= 2**31 else late_ms / 1000


def restamp(picture: Picture, captured_ms: int) -> Picture:
    """The picture with its time of capture on another clock."""
    return replace(picture, captured_ms=captured_ms)
