"""Pure: the last two minutes of each agent on screen, small enough to be kept all the time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from Daddy.streaming.wire import codec

REEL_S = 120.0
CLIP_S = 30.0
FILM_FPS = 12.5
"""Pictures a second of a film: a GIF counts in hundredths of a second, and 8 of them are exact."""
_MOST_AGENTS = 32


class Reel:
    """Takes the pictures on screen; a picture stays until the next one of its agent.

    Pictures are kept as they travel when whole (about 600 bytes each): at most 1,500 an agent.
    """

    def __init__(self) -> None:
        self._kept: dict[str, deque[tuple[float, bytes]]] = {}
        self._last: dict[str, bytes] = {}

    def see(self, pictures: Iterable[tuple[str, bytes | None]], now: float) -> None:
        """What is on screen at ``now`` (monotonic seconds): names and row-major pictures."""
        for name, pixels in pictures:
            kept = self._kept.setdefault(name, deque())
            due = not kept or now - kept[-1][0] >= 1 / FILM_FPS
            if pixels is not None and due and pixels != self._last.get(name):
                self._last[name] = pixels
                kept.append((now, codec.encode(pixels)))
        for name, kept in list(self._kept.items()):
            while len(kept) > 1 and kept[1][0] <= now - REEL_S:
                kept.popleft()
            if not kept or kept[-1][0] < now - 2 * REEL_S or len(self._kept) > _MOST_AGENTS:
                del self._kept[name]
                self._last.pop(name, None)

    def film(self, name: str, begin: float, end: float) -> list[bytes]:
        """The agent's pictures of that time at ``FILM_FPS``; empty when there are none."""
        kept = list(self._kept.get(name, ()))
        if not kept or kept[0][0] >= end:
            return []
        pictures, index, pixels = [], -1, b""
        count = max(1, int((end - max(begin, kept[0][0])) * FILM_FPS))
        for number in range(count):
            at = max(begin, kept[0][0]) + number / FILM_FPS
            while index + 1 < len(kept) and kept[index + 1][0] <= at:
                index += 1
                pixels = b""
            pixels = pixels or codec.decode(kept[index][1])
            pictures.append(pixels)
        return pictures
