"""Pure: pictures of one agent towards one viewer: never more on their way than the link can take.

ssh hides megabytes of buffer, so that a sender who writes until it blocks shows minutes-old play.
Here a picture leaves only while few are unacknowledged; otherwise the newest one waits and the
older is dropped. Every picture differs from the newest that the viewer *has acknowledged*, so any
of them may be lost or skipped. A whole picture goes out first, when asked for, and every 10 s.
"""

from __future__ import annotations

import math
from dataclasses import replace

from Daddy.streaming import codec
from Daddy.streaming.messages import Frame
from Daddy.streaming.segment import Picture

KEEP = 64
"""Sent pictures that either side remembers as bases."""
KEY_EVERY_S = 10.0
MIN_WINDOW, MAX_WINDOW = 2, 16
UNACKED_BYTES = 64 * 1024
SPOOL_WAITS_S, DIRECT_WAITS_S = (3.0, 1.2), (0.05, 0.0)
"""Play that may wait, and that usually does: a lump and what it may be late, or hardly any."""


def window(rtt_s: float, fps: float) -> int:
    """Unacknowledged pictures allowed: what fits into a round trip, and two more."""
    return max(MIN_WINDOW, min(MAX_WINDOW, math.ceil(rtt_s * fps) + 2))


class Sender:
    """Chooses, numbers and deflates the pictures of one stream."""

    def __init__(self) -> None:
        self.sent = 0
        self.dropped = 0
        self._pending: Picture | None = None
        self._history: dict[int, bytes] = {}
        self._unacked: dict[int, int] = {}
        self._seq = 0
        self._acked = 0
        self._key_at = -math.inf

    def offer(self, picture: Picture) -> None:
        """The newest picture; one that still waits is dropped for it."""
        self.dropped += self._pending is not None
        self._pending = picture

    def unacked_bytes(self) -> int:
        """Bytes of this stream that the viewer has not acknowledged."""
        return sum(self._unacked.values())

    def next(self, now: float, allowed: int) -> Frame | None:
        """The next frame if a picture waits and fewer than ``allowed`` are on their way.

        ``now`` is monotonic seconds.
        """
        if self._pending is None or len(self._unacked) >= allowed:
            return None
        picture, self._pending = self._pending, None
        tiles = codec.to_tiles(picture.pixels)
        base = self._base(now)
        data = codec.deflate(tiles, self._history.get(base))
        self._seq += 1
        self._remember(tiles, len(data))
        frame = Frame(self._seq, base, picture.step, picture.captured_ms, picture.episode, data)
        self.sent += 1
        return frame

    def _base(self, now: float) -> int:
        """Number of the acknowledged picture to differ from, or 0 when a whole one is due."""
        if self._acked in self._history and now - self._key_at < KEY_EVERY_S:
            return self._acked
        self._key_at = now
        return 0

    def _remember(self, tiles: bytes, size: int) -> None:
        self._history[self._seq] = tiles
        self._unacked[self._seq] = size
        while len(self._history) > KEEP:
            del self._history[next(iter(self._history))]

    def acked(self, seq: int) -> None:
        """The viewer has decoded ``seq``; all before it are settled. Unknown ones are ignored."""
        if seq not in self._history or seq <= self._acked:
            return
        self._acked = seq
        self._unacked = {one: size for one, size in self._unacked.items() if one > seq}
        self._history = {one: tiles for one, tiles in self._history.items() if one >= seq}

    def need_key(self) -> None:
        """The viewer cannot decode: forget what it has, begin with a whole picture."""
        self._acked = 0
        self._unacked.clear()
        self._key_at = -math.inf


class Receiver:
    """Decodes the frames of one stream."""

    def __init__(self) -> None:
        self._history: dict[int, bytes] = {}

    def decode(self, frame: Frame) -> bytes | None:
        """The row-major picture; None when its base is unknown or the bytes are damaged."""
        base = self._history.get(frame.base)
        if frame.base and base is None:
            return None
        try:
            tiles = codec.inflate(frame.data, base)
        except codec.CodecError:
            return None
        self._history[frame.seq] = tiles
        while len(self._history) > KEEP:
            del self._history[next(iter(self._history))]
        return codec.from_tiles(tiles)


class Playout:
    """Plays a second's pictures at the pace at which they were taken.

    The spool delivers in lumps; shown as they come, they would be a slide show.
    """

    def __init__(
        self, longest_s: float = SPOOL_WAITS_S[0], usual_s: float = SPOOL_WAITS_S[1]
    ) -> None:
        """``usual_s`` of play may wait; above that it is played a fifth faster."""
        self._longest_s = longest_s
        self._usual_s = usual_s
        self._queue: list[tuple[float, Picture]] = []

    def __len__(self) -> int:
        return len(self._queue)

    def hurry(self, *, direct: bool) -> None:
        """Pictures that come one by one need not wait for the next lump."""
        self._longest_s, self._usual_s = DIRECT_WAITS_S if direct else SPOOL_WAITS_S

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
