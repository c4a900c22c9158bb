"""Pure. Decides when a picture is sent, against which bases, and how many a second the link takes.

ssh buffers megabytes, so a sender that writes until it blocks shows pictures that are minutes old.
:class:`StreamSender` sends a picture only while few are unacknowledged; until then the newest
picture waits and replaces an older one. Every delta is against pictures that the viewer *has
acknowledged*, so any picture may be lost. A whole picture comes first, on request, and every 10 s.

:class:`RateController` learns the link's rate from the time to an acknowledgement: the minimum over
a minute is the link's own round trip; a much longer time is a queue that the sender has filled.

:class:`PlayoutBuffer` spreads the pictures of a spool segment, which arrive half a second of play
at once: each picture is delayed by the largest delay of the last 30 seconds.
"""

import math
from collections import deque

from Daddy.core.shared_types import SCREEN_BYTES
from Daddy.streaming.protocol import frame_codec
from Daddy.streaming.protocol.frame_codec import MAX_BASES, TiledPicture, split_tiles
from Daddy.streaming.protocol.messages import FORMAT_TILES, FORMAT_TILING, Frame
from Daddy.streaming.protocol.spool_segment import CapturedPicture

KEY_EVERY_S = 10.0
MIN_WINDOW, MAX_WINDOW = 2, 16
UNACKED_BYTES = 64 * 1024


def window_size(rtt_s: float, fps: float) -> int:
    """Return the number of unacknowledged pictures allowed: those of a round trip and two more."""
    return max(MIN_WINDOW, min(MAX_WINDOW, math.ceil(rtt_s * fps) + 2))


class StreamSender:
    """Chooses, numbers and deflates the pictures of one stream.

    A delta's bases are pictures that the viewer has acknowledged after decoding each; a picture
    before an acknowledged one may have failed and is no base. The bases are consecutive, so the
    newest number and the count name them all. They are at most ``MAX_BASES``, which together with a
    full window is fewer than the ``KEEP`` pictures that a viewer remembers.
    """

    def __init__(self) -> None:
        self._newest_acknowledged = 0
        self._acknowledged: deque[TiledPicture] = deque(maxlen=MAX_BASES)
        self._pending: CapturedPicture | None = None
        self._unacked: dict[int, tuple[TiledPicture, int, float]] = {}
        self._seq = 0
        self._key_at = self._sent_at = -math.inf

    def set_picture(self, picture: CapturedPicture) -> None:
        """Set the next picture; it replaces one that still waits."""
        self._pending = picture

    def unacked_bytes(self) -> int:
        return sum(size for _, size, _ in self._unacked.values())

    def is_active(self, now: float, within_s: float) -> bool:
        """Return True if a picture waits or was sent within the last ``within_s``."""
        return self._pending is not None or now - self._sent_at < within_s

    def next_frame(self, now: float, allowed: int, gap_s: float = 0.0) -> Frame | None:
        """Return the next frame; None unless one waits and ``allowed`` and ``gap_s`` permit it."""
        if self._pending is None or len(self._unacked) >= allowed or now - self._sent_at < gap_s:
            return None
        picture, self._pending = self._pending, None
        tiles = split_tiles(frame_codec.to_tiles(picture.pixels))
        base, more, data = self._deflate(tiles, now)
        self._seq, self._sent_at = self._seq + 1, now
        self._unacked[self._seq] = (tiles, len(data), now)
        head = (self._seq, base, picture.step, picture.captured_ms, picture.episode)
        return Frame(*head, data, FORMAT_TILING if base else FORMAT_TILES, more)

    def _deflate(self, picture: TiledPicture, now: float) -> tuple[int, int, bytes]:
        """Return (base, further bases, bytes); base 0: a whole picture, which is due or shorter."""
        if self._acknowledged and now - self._key_at < KEY_EVERY_S:
            data = frame_codec.deflate_tiled(picture, tuple(self._acknowledged))
            if len(data) < SCREEN_BYTES:
                return self._newest_acknowledged, len(self._acknowledged) - 1, data
        self._key_at = now
        return 0, 0, frame_codec.deflate(picture.tiles(), None)

    def handle_ack(self, seq: int, now: float) -> float | None:
        """Note that the viewer decoded ``seq``; return seconds since sending, None if repeated."""
        if seq not in self._unacked:
            return None
        picture, _, sent_at = self._unacked[seq]
        if seq != self._newest_acknowledged + 1:
            self._acknowledged.clear()
        self._newest_acknowledged = seq
        self._acknowledged.append(picture)
        self._unacked = {number: sent for number, sent in self._unacked.items() if number > seq}
        return now - sent_at

    def require_whole_picture(self) -> None:
        """Make the next picture a whole one, because the viewer lacks a base."""
        self._acknowledged.clear()
        self._unacked.clear()
        self._key_at = -math.inf


PERIOD_S, _SLICE_S = 60.0, 5.0
"""Seconds over which the minimum round trip is taken, and of each slice of them."""
CONGESTED, FREE = 3.0, 1.5
"""Multiples of the minimum above which the link is congested, and below which it is free."""
SLACK_S = 0.1
"""Seconds above the minimum that never count as congestion: a busy viewer may need them."""
CONGESTED_S, FREE_S, AGAIN_S = 1.0, 5.0, 1.0
"""Seconds: congestion before slowing down, free link before speeding up, between speed-ups."""
_SLOWER, _MORE_FPS, FLOOR_FPS = 0.7, 2.0, 2.0
_UNKNOWN_S = 0.1
_NEWEST_WEIGHT = 1 / 8
"""Weight of the newest round trip in the smoothed one, so that one late answer changes little."""


class RateController:
    """Adapts :attr:`fps` and :attr:`first_agent_only` to the acknowledgements of a link."""

    def __init__(self) -> None:
        self.fps = math.inf
        """Pictures a second of each agent that the link takes, as far as is known."""
        self.first_agent_only = False
        """Set while the link has room for the first agent's pictures only."""
        self._slices: deque[tuple[float, float]] = deque()
        self._usual_s: float | None = None
        self._congested_since: float | None = None
        self._free_since: float | None = None
        self._quiet_since: float | None = None

    @property
    def least_s(self) -> float:
        """Minimum round trip of the last minute, seconds; 0.1 until one is known."""
        return min((least for _, least in self._slices), default=_UNKNOWN_S)

    def handle_ack(self, rtt_s: float, wished_fps: float, now: float) -> tuple[str, ...]:
        """Note an acknowledgement ``rtt_s`` after sending; return sentences for the viewer."""
        self._record_round_trip(rtt_s, now)
        before = rtt_s if self._usual_s is None else self._usual_s
        self._usual_s = usual_s = before + _NEWEST_WEIGHT * (rtt_s - before)
        congested = min(usual_s, rtt_s) > max(CONGESTED * self.least_s, self.least_s + SLACK_S)
        free = usual_s < max(FREE * self.least_s, self.least_s + SLACK_S / 2)
        self._congested_since = _since(self._congested_since, now) if congested else None
        self._free_since = _since(self._free_since, now) if free else None
        if self._congested_since is not None and now - self._congested_since >= CONGESTED_S:
            self._congested_since, fps = now, min(self.fps, wished_fps)
            if fps > FLOOR_FPS:
                self.fps = max(FLOOR_FPS, fps * _SLOWER)
            elif not self.first_agent_only:
                self.first_agent_only = True
                return ("this line is slow: pictures of the first agent only",)
        if self._free_since is not None and now - self._free_since >= FREE_S:
            self._free_since = now - FREE_S + AGAIN_S
            return self._faster()
        return ()

    def handle_sent(self, unacked: int, now: float) -> tuple[str, ...]:
        """Note the unacknowledged bytes; after 5 s without any, allow pictures of all agents."""
        self._quiet_since = None if unacked else _since(self._quiet_since, now)
        quiet = self._quiet_since is not None and now - self._quiet_since >= FREE_S
        return self._faster() if self.first_agent_only and quiet else ()

    def _record_round_trip(self, rtt_s: float, now: float) -> None:
        if self._slices and now - self._slices[-1][0] < _SLICE_S:
            began, least = self._slices.pop()
            self._slices.append((began, min(least, rtt_s)))
        else:
            self._slices.append((now, rtt_s))
        while now - self._slices[0][0] > PERIOD_S:
            self._slices.popleft()

    def _faster(self) -> tuple[str, ...]:
        if self.first_agent_only:
            self.first_agent_only = False
            return ("the line has room again: pictures of all agents",)
        self.fps += _MORE_FPS
        return ()


def _since(before: float | None, now: float) -> float:
    return now if before is None else before


MEMORY_S = 30.0
"""Seconds for which the delay of pictures is remembered."""
LONGEST_S = 3.0
"""Longest delay added to pictures, seconds; later ones are dropped."""
CATCH_UP = 0.8
"""Share of the captured interval between two pictures while the delay is being reduced."""


class PlayoutBuffer:
    """Holds arrived pictures until they are due; times are monotonic seconds."""

    def __init__(self) -> None:
        self._queue: deque[tuple[float, CapturedPicture]] = deque()
        self._lateness: deque[tuple[float, float]] = deque()
        self._last: tuple[float, int] | None = None

    def add_pictures(
        self, pictures: list[CapturedPicture], now: float, *, direct: bool = False
    ) -> None:
        """Queue arrived pictures, oldest first; ``captured_ms`` is on the clock of ``now``.

        ``direct``: pictures arrive one by one, so the delay of earlier segments is forgotten.
        """
        if direct:
            self._lateness.clear()
        delay_s = 0.0 if direct or not pictures else self._needed_s(pictures[0], now)
        for picture in pictures:
            due = now + delay_s - _late_s(picture, now)
            if due < now and picture is not pictures[-1]:
                continue  # captured so early that it would be shown for an instant only
            self._put(picture, now, max(now, due))

    def _needed_s(self, oldest: CapturedPicture, now: float) -> float:
        """Return the largest delay of the remembered segments' oldest pictures, seconds."""
        self._lateness.append((now, min(LONGEST_S, _late_s(oldest, now))))
        while now - self._lateness[0][0] > MEMORY_S:
            self._lateness.popleft()
        return max(late for _, late in self._lateness)

    def _put(self, picture: CapturedPicture, now: float, due: float) -> None:
        """Queue a picture, at least ``CATCH_UP`` of its captured interval after the one before."""
        if self._last is not None:
            before, captured_ms = self._last
            gap_s = ((picture.captured_ms - captured_ms) % 2**32) / 1000
            if gap_s <= LONGEST_S:
                due = min(max(due, before + CATCH_UP * gap_s), now + LONGEST_S)
        self._last = (due, picture.captured_ms)
        self._queue.append((due, picture))

    def take_due(self, now: float) -> list[tuple[float, CapturedPicture]]:
        """Return (due time, picture) of every due picture, oldest first."""
        ready = []
        while self._queue and self._queue[0][0] <= now:
            ready.append(self._queue.popleft())
        return ready

    def next_due(self) -> float:
        """Return the time of the next picture (monotonic s); infinity when none waits."""
        return self._queue[0][0] if self._queue else math.inf


def _late_s(picture: CapturedPicture, now: float) -> float:
    """Return the seconds since capture; 0 if the clocks place the capture in the future."""
    late_ms = (round(now * 1000) - picture.captured_ms) % 2**32
    return 0.0 if late_ms >= 2**31 else late_ms / 1000
