"""Pure: pictures of one agent towards one viewer: never more on their way than the link can take.

ssh hides megabytes of buffer, so that a sender who writes until it blocks shows minutes-old play.
Here a picture leaves only while few are unacknowledged; otherwise the newest one waits and the
older is dropped. Every picture differs from those that the viewer *has acknowledged*, so any of
them may be lost or skipped. A whole picture goes out first, when asked for, and every 10 s.
"""

from __future__ import annotations

import math
from collections import deque

from Daddy.core.vocabulary import SCREEN_BYTES
from Daddy.streaming.wire import codec, tiling
from Daddy.streaming.wire.messages import FORMAT_TILES, FORMAT_TILING, Frame
from Daddy.streaming.wire.protocol import VERSION
from Daddy.streaming.wire.segment import Picture
from Daddy.streaming.wire.tiling import MAX_BASES, Tiled, tiled

KEEP = 64
"""Pictures of a stream that a viewer remembers."""
KEY_EVERY_S = 10.0
MIN_WINDOW, MAX_WINDOW = 2, 16
UNACKED_BYTES = 64 * 1024
_TILING_SINCE = 2
"""Version of the protocol from which on a viewer reads ``FORMAT_TILING``."""


def window(rtt_s: float, fps: float) -> int:
    """Unacknowledged pictures allowed: what fits into a round trip, and two more."""
    return max(MIN_WINDOW, min(MAX_WINDOW, math.ceil(rtt_s * fps) + 2))


class Shared:
    """Pictures of a stream that the viewer surely has, as far as deltas may lean on them.

    It acknowledges each one once it has decoded it, so only these count, not those before them:
    one of those may have failed. And only an unbroken run of them, so that its newest number and
    its length name it; at most ``MAX_BASES``, which with a full window after them are fewer than
    the ``KEEP`` that a viewer remembers.
    """

    def __init__(self, most: int) -> None:
        self.newest = 0
        self.run: deque[Tiled] = deque(maxlen=most)

    def add(self, seq: int, picture: Tiled) -> None:
        """The viewer has decoded ``seq``."""
        if seq != self.newest + 1:
            self.run.clear()
        self.newest = seq
        self.run.append(picture)

    def forget(self) -> None:
        """The viewer lacks something: nothing is sure any more."""
        self.run.clear()


class Sender:
    """Chooses, numbers and deflates the pictures of one stream for a viewer of this ``version``."""

    def __init__(self, version: int = VERSION) -> None:
        self.sent = 0
        self.dropped = 0
        self._format = FORMAT_TILING if version >= _TILING_SINCE else FORMAT_TILES
        self._shared = Shared(MAX_BASES if version >= _TILING_SINCE else 1)
        self._pending: Picture | None = None
        self._unacked: dict[int, tuple[Tiled, int, float]] = {}
        self._seq = 0
        self._key_at = self._sent_at = -math.inf

    def offer(self, picture: Picture) -> None:
        """The newest picture; one that still waits is dropped for it."""
        self.dropped += self._pending is not None
        self._pending = picture

    def unacked_bytes(self) -> int:
        """Bytes of this stream that the viewer has not acknowledged."""
        return sum(size for _, size, _ in self._unacked.values())

    def busy(self, now: float, within_s: float) -> bool:
        """Whether a picture waits, or one left in the last ``within_s``."""
        return self._pending is not None or now - self._sent_at < within_s

    def next(self, now: float, allowed: int, gap_s: float = 0.0) -> Frame | None:
        """The next frame if a picture waits, fewer than ``allowed`` are on their way and the last
        left ``gap_s`` ago. ``now`` is monotonic seconds.
        """
        if self._pending is None or len(self._unacked) >= allowed or now - self._sent_at < gap_s:
            return None
        picture, self._pending = self._pending, None
        tiles = tiled(codec.to_tiles(picture.pixels))
        base, more, data = self._deflate(tiles, now)
        self._seq, self._sent_at = self._seq + 1, now
        self._unacked[self._seq] = (tiles, len(data), now)
        self.sent += 1
        head = (self._seq, base, picture.step, picture.captured_ms, picture.episode)
        return Frame(*head, data, self._format if base else FORMAT_TILES, more)

    def _deflate(self, picture: Tiled, now: float) -> tuple[int, int, bytes]:
        """Base, further bases and bytes; base 0 where a whole picture is due or is shorter."""
        bases = tuple(self._shared.run)
        if bases and now - self._key_at < KEY_EVERY_S:
            data = self._delta(picture, bases)
            if len(data) < SCREEN_BYTES:
                return self._shared.newest, len(bases) - 1, data
        self._key_at = now
        return 0, 0, codec.deflate(picture.tiles(), None)

    def _delta(self, picture: Tiled, bases: tuple[Tiled, ...]) -> bytes:
        if self._format == FORMAT_TILES:
            return codec.deflate(picture.tiles(), bases[-1].tiles())
        return tiling.deflate(picture, bases)

    def acked(self, seq: int, now: float) -> float | None:
        """The viewer has decoded ``seq``; returns the seconds since it was sent.

        All before it are settled. One that was not sent, or is settled, is ignored: None.
        """
        if seq not in self._unacked:
            return None
        picture, _, sent_at = self._unacked[seq]
        self._shared.add(seq, picture)
        self._unacked = {one: what for one, what in self._unacked.items() if one > seq}
        return now - sent_at

    def need_key(self) -> None:
        """The viewer cannot decode: forget what it has, begin with a whole picture."""
        self._shared.forget()
        self._unacked.clear()
        self._key_at = -math.inf


class Receiver:
    """Decodes the frames of one stream, of any format."""

    def __init__(self) -> None:
        self._history: dict[int, Tiled] = {}

    def decode(self, frame: Frame) -> bytes | None:
        """The row-major picture; None when a base is unknown or the bytes are damaged."""
        try:
            tiles = self._inflate(frame)
        except (codec.CodecError, KeyError):
            return None
        self._history[frame.seq] = tiled(tiles)
        while len(self._history) > KEEP:
            del self._history[next(iter(self._history))]
        return codec.from_tiles(tiles)

    def _inflate(self, frame: Frame) -> bytes:
        if frame.format == FORMAT_TILING and frame.base and frame.more < MAX_BASES:
            numbers = range(frame.base - frame.more, frame.base + 1)
            return tiling.inflate(frame.data, [self._history[number] for number in numbers])
        if frame.format == FORMAT_TILES:
            base = self._history[frame.base].tiles() if frame.base else None
            return codec.inflate(frame.data, base)
        raise codec.CodecError(f"a picture of format {frame.format}, which is not known here")
