"""Pure: how many pictures a second a line takes, learnt from how long acknowledgements need.

The time to an acknowledgement is the line's own round trip and the queue before it. The least of a
minute is the line alone; what is far above it is queue, which the sender has made itself.
"""

from __future__ import annotations

import math
from collections import deque

PERIOD_S, _SLICE_S = 60.0, 5.0
"""The least is taken over so long, in slices of so long."""
CROWDED, FREE = 3.0, 1.5
"""Times the least at which the line is full, and below which it has room again."""
SLACK_S = 0.1
"""Below so much more than the least nothing is slowed down: a busy viewer looks like that too."""
CROWDED_S, FREE_S, AGAIN_S = 1.0, 5.0, 1.0
"""For so long, without an exception, before anything is done, and then before more is."""
_SLOWER, _MORE_FPS, FLOOR_FPS = 0.7, 2.0, 2.0
_UNKNOWN_S = 0.1
_NEWEST_COUNTS = 1 / 8
"""In what is usual, so that one late answer says nothing."""


class Pace:
    """Feed it acknowledgements; :attr:`fps` and :attr:`alone` are what follows from them."""

    def __init__(self) -> None:
        self.fps = math.inf
        """Pictures of an agent a second that the line takes, as far as is known."""
        self.alone = False
        """Whether only the first agent's pictures fit."""
        self._slices: deque[tuple[float, float]] = deque()
        self._usual_s: float | None = None
        self._crowded_since: float | None = None
        self._free_since: float | None = None
        self._quiet_since: float | None = None

    @property
    def least_s(self) -> float:
        """The line's own round trip: the least of the last minute, 0.1 s until one is known."""
        return min((least for _, least in self._slices), default=_UNKNOWN_S)

    def heard(self, rtt_s: float, wished_fps: float, now: float) -> tuple[str, ...]:
        """A picture was acknowledged ``rtt_s`` after it was sent; returns in sentences
        what that changes for the person.
        """
        self._note(rtt_s, now)
        before = rtt_s if self._usual_s is None else self._usual_s
        self._usual_s = usual_s = before + _NEWEST_COUNTS * (rtt_s - before)
        crowded = min(usual_s, rtt_s) > max(CROWDED * self.least_s, self.least_s + SLACK_S)
        free = usual_s < max(FREE * self.least_s, self.least_s + SLACK_S / 2)
        self._crowded_since = _since(self._crowded_since, now) if crowded else None
        self._free_since = _since(self._free_since, now) if free else None
        if self._crowded_since is not None and now - self._crowded_since >= CROWDED_S:
            self._crowded_since = now
            return self._slower(min(self.fps, wished_fps))
        if self._free_since is not None and now - self._free_since >= FREE_S:
            self._free_since = now - FREE_S + AGAIN_S
            return self._faster()
        return ()

    def sent(self, unacked: int, now: float) -> tuple[str, ...]:
        """After sending: ``unacked`` bytes are on their way. A line that was quiet for a while has
        room, though no acknowledgement says so; returns in sentences what that changes.
        """
        self._quiet_since = None if unacked else _since(self._quiet_since, now)
        quiet = self._quiet_since is not None and now - self._quiet_since >= FREE_S
        return self._faster() if self.alone and quiet else ()

    def _note(self, rtt_s: float, now: float) -> None:
        if self._slices and now - self._slices[-1][0] < _SLICE_S:
            began, least = self._slices.pop()
            self._slices.append((began, min(least, rtt_s)))
        else:
            self._slices.append((now, rtt_s))
        while now - self._slices[0][0] > PERIOD_S:
            self._slices.popleft()

    def _slower(self, fps: float) -> tuple[str, ...]:
        if fps > FLOOR_FPS:
            self.fps = max(FLOOR_FPS, fps * _SLOWER)
            return ()
        was, self.alone = self.alone, True
        return () if was else ("this line is slow: pictures of the first agent only",)

    def _faster(self) -> tuple[str, ...]:
        if self.alone:
            self.alone = False
            return ("the line has room again: pictures of all agents",)
        self.fps += _MORE_FPS
        return ()


def _since(before: float | None, now: float) -> float:
    return now if before is None else before
