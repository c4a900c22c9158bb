"""Pure: pictures that arrive in lumps, played at the pace at which they were taken."""

from __future__ import annotations

from dataclasses import replace

from Daddy.streaming.segment import Picture


class Playout:
    """Plays a second's pictures at the pace at which they were taken.

    The spool delivers in lumps; shown as they come, they would be a slide show.
    """

    def __init__(self, longest_s: float = 3.0, usual_s: float = 1.2) -> None:
        """``usual_s`` of play may wait; above that it is played a fifth faster."""
        self._longest_s = longest_s
        self._usual_s = usual_s
        self._queue: list[tuple[float, Picture]] = []

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, pictures: list[Picture], now: float) -> None:
        """Queue a lump; when more than ``longest_s`` would wait, the oldest are dropped."""
        for picture in pictures:
            due = now if not self._queue else self._after(picture, now)
            self._queue.append((due, picture))
        last = self._queue[-1][0] if self._queue else now
        if last - now > self._longest_s:
            shift = last - now - self._longest_s
            self._queue = [(due - shift, one) for due, one in self._queue if due - shift >= now]

    def _after(self, picture: Picture, now: float) -> float:
        due, before = self._queue[-1]
        gap_ms = (picture.captured_ms - before.captured_ms) % 2**32
        pace = 0.8 if due - now > self._usual_s else 1.0
        return max(now, due + pace * min(gap_ms / 1000, 1.0))

    def due(self, now: float) -> list[tuple[float, Picture]]:
        """Pictures whose time has come, with it, oldest first."""
        count = sum(1 for due, _ in self._queue if due <= now)
        ready, self._queue = self._queue[:count], self._queue[count:]
        return ready

    def next_due(self) -> float | None:
        """When the next picture is due; None when nothing waits."""
        return self._queue[0][0] if self._queue else None


def restamp(picture: Picture, captured_ms: int) -> Picture:
    """The picture with its time of capture on another clock."""
    return replace(picture, captured_ms=captured_ms)
