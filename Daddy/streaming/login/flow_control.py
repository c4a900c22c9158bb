"""Pure. Decides when a picture leaves, against what, and how many a second the line takes.

ssh hides megabytes of buffer, so a sender that writes until it blocks shows minutes-old play. A
picture leaves only while few are unacknowledged (``Sender``); else the newest waits and the older
is dropped. Every picture differs from those that the viewer *has acknowledged*, so any may be lost.
A whole picture goes out first, when asked for, and every 10 s.

``Pace`` learns the line's rate from the time to an acknowledgement: its least over a minute is the
line alone, and far more than that is queue, which the sender has made itself.

``Playout`` evens out the spool, which hands over half a second of play at once: each picture of an
agent is shown as much later than it was taken as the latest of the last seconds was late.
"""

from __future__ import annotations

import math
from collections import deque

from Daddy.core.shared_types import SCREEN_BYTES
from Daddy.streaming.protocol import frame_codec
from Daddy.streaming.protocol.frame_codec import MAX_BASES, Tiled, tiled
from Daddy.streaming.protocol.messages import FORMAT_TILES, FORMAT_TILING, Frame
from Daddy.streaming.protocol.spool_segment import Picture

KEY_EVERY_S = 10.0
MIN_WINDOW, MAX_WINDOW = 2, 16
UNACKED_BYTES = 64 * 1024


def window(rtt_s: float, fps: float) -> int:
    """Unacknowledged pictures allowed: what fits into a round trip, and two more."""
    return max(MIN_WINDOW, min(MAX_WINDOW, math.ceil(rtt_s * fps) + 2))


class Sender:
    """Chooses, numbers and deflates the pictures of one stream.

    A delta leans on pictures that the viewer surely has. It acknowledges each one once it has
    decoded it, so only these count, not those before them: one of those may have failed. And only
    an unbroken run of them, so that its newest number and its length name it; at most
    ``MAX_BASES``, which with a full window after them are fewer than the ``KEEP`` that a viewer
    remembers.
    """

    def __init__(self) -> None:
        self._newest_shared = 0
        self._shared: deque[Tiled] = deque(maxlen=MAX_BASES)
        self._pending: Picture | None = None
        self._unacked: dict[int, tuple[Tiled, int, float]] = {}
        self._seq = 0
        self._key_at = self._sent_at = -math.inf

    def offer(self, picture: Picture) -> None:
        """The newest picture; one that still waits is dropped for it."""
        self._pending = picture

    def unacked_bytes(self) -> int:
        return sum(size for _, size, _ in self._unacked.values())

    def busy(self, now: float, within_s: float) -> bool:
        """A picture waits, or one left in the last ``within_s``."""
        return self._pending is not None or now - self._sent_at < within_s

    def next(self, now: float, allowed: int, gap_s: float = 0.0) -> Frame | None:
        """The next frame, where fewer than ``allowed`` are unacknowledged, ``gap_s`` later."""
        if self._pending is None or len(self._unacked) >= allowed or now - self._sent_at < gap_s:
            return None
        picture, self._pending = self._pending, None
        tiles = tiled(frame_codec.to_tiles(picture.pixels))
        base, more, data = self._deflate(tiles, now)
        self._seq, self._sent_at = self._seq + 1, now
        self._unacked[self._seq] = (tiles, len(data), now)
        head = (self._seq, base, picture.step, picture.captured_ms, picture.episode)
        return Frame(*head, data, FORMAT_TILING if base else FORMAT_TILES, more)

    def _deflate(self, picture: Tiled, now: float) -> tuple[int, int, bytes]:
        """Base, further bases and bytes; base 0 where a whole picture is due or is shorter."""
        if self._shared and now - self._key_at < KEY_EVERY_S:
            data = frame_codec.deflate_tiled(picture, tuple(self._shared))
            if len(data) < SCREEN_BYTES:
                return self._newest_shared, len(self._shared) - 1, data
        self._key_at = now
        return 0, 0, frame_codec.deflate(picture.tiles(), None)

    def acked(self, seq: int, now: float) -> float | None:
        """The viewer has decoded ``seq``: seconds since it was sent; None for a settled one."""
        if seq not in self._unacked:
            return None
        picture, _, sent_at = self._unacked[seq]
        if seq != self._newest_shared + 1:
            self._shared.clear()
        self._newest_shared = seq
        self._shared.append(picture)
        self._unacked = {one: what for one, what in self._unacked.items() if one > seq}
        return now - sent_at

    def need_key(self) -> None:
        """The viewer cannot decode: forget what it has, begin with a whole picture."""
        self._shared.clear()
        self._unacked.clear()
        self._key_at = -math.inf


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
        """Only the first agent's pictures fit."""
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
        """A picture was acknowledged ``rtt_s`` after it was sent; sentences for the person."""
        self._note(rtt_s, now)
        before = rtt_s if self._usual_s is None else self._usual_s
        self._usual_s = usual_s = before + _NEWEST_COUNTS * (rtt_s - before)
        crowded = min(usual_s, rtt_s) > max(CROWDED * self.least_s, self.least_s + SLACK_S)
        free = usual_s < max(FREE * self.least_s, self.least_s + SLACK_S / 2)
        self._crowded_since = _since(self._crowded_since, now) if crowded else None
        self._free_since = _since(self._free_since, now) if free else None
        if self._crowded_since is not None and now - self._crowded_since >= CROWDED_S:
            self._crowded_since, fps = now, min(self.fps, wished_fps)
            if fps > FLOOR_FPS:
                self.fps = max(FLOOR_FPS, fps * _SLOWER)
            elif not self.alone:
                self.alone = True
                return ("this line is slow: pictures of the first agent only",)
        if self._free_since is not None and now - self._free_since >= FREE_S:
            self._free_since = now - FREE_S + AGAIN_S
            return self._faster()
        return ()

    def sent(self, unacked: int, now: float) -> tuple[str, ...]:
        """After sending, ``unacked`` bytes are on their way: a quiet line has room again."""
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

    def _faster(self) -> tuple[str, ...]:
        if self.alone:
            self.alone = False
            return ("the line has room again: pictures of all agents",)
        self.fps += _MORE_FPS
        return ()


def _since(before: float | None, now: float) -> float:
    return now if before is None else before


MEMORY_S = 30.0
"""The lateness of pictures is remembered for so long."""
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

    def add(self, pictures: list[Picture], now: float, *, direct: bool = False) -> None:
        """Queue what has arrived: oldest first, ``captured_ms`` on the clock of ``now``.

        ``direct``: pictures come one by one, not in lumps; how late lumps were is forgotten.
        """
        if direct:
            self._lateness.clear()
        delay_s = 0.0 if direct or not pictures else self._needed_s(pictures[0], now)
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

    def next_due(self) -> float:
        """Time of the next picture; infinite when nothing waits."""
        return self._queue[0][0] if self._queue else math.inf


def _late_s(picture: Picture, now: float) -> float:
    """Seconds since it was taken; 0 where the clocks say that it will be."""
    late_ms = (round(now * 1000) - picture.captured_ms) % 2**32
    return 0.0 if late_ms >= 2**31 else late_ms / 1000
