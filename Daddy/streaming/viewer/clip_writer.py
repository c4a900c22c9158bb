"""Keeps the last minutes of each agent on screen, and writes them as GIF or MP4 (Pillow, ffmpeg).

Files appear whole, in the folder that the viewer was started in. A thread writes them one after the
other. Pictures are row-major at 2 bits a pixel (`core.shared_types.SCREEN_BYTES`).
"""

from __future__ import annotations

import io
import queue
import shutil
import tempfile
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import write_atomic
from Daddy.core.child_process import run_command
from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError, FileError, UsageError
from Daddy.core.shared_types import SCREEN_HEIGHT, SCREEN_WIDTH
from Daddy.streaming.protocol import frame_codec
from Daddy.streaming.viewer.draw_list import THEMES, Theme, unpacked
from Daddy.streaming.viewer.key_bindings import Act

_ENCODE_S = 300.0


def check(path: Path) -> None:
    """Raise UsageError now, not after minutes of play, for a `path` that cannot be written."""
    if path.suffix.lower() == ".mp4" and shutil.which("ffmpeg") is None:
        raise UsageError(
            f"{path} needs ffmpeg, which is not on this machine's PATH",
            "install ffmpeg, or write a GIF: --gif FILE",
        )
    if not path.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {path.absolute().parent}", "make it first")


def save_film(
    path: Path,
    pictures: Sequence[bytes],
    per_second: float,
    scale: int = 2,
    theme: Theme = THEMES[1],
) -> None:
    """Write `pictures` as .gif or .mp4, `scale` times as large. FileError when that fails."""
    if not pictures:
        raise FileError(f"nothing was played, so {path} was not written", "play for longer")
    write = _mp4 if path.suffix.lower() == ".mp4" else _gif
    write(path, pictures, per_second, scale, theme)


def _gif(
    path: Path, pictures: Sequence[bytes], per_second: float, scale: int, theme: Theme
) -> None:
    """Equal pictures in a row become one that stays longer: half of a game is waiting."""
    shown = [(picture, len(list(same))) for picture, same in groupby(pictures)]
    frames = [_image(picture, scale, theme) for picture, _ in shown]
    tick_ms = 10 * round(100 / per_second)
    made, durations = io.BytesIO(), [tick_ms * times for _, times in shown]
    more = {"append_images": frames[1:], "duration": durations, "loop": 0, "optimize": False}
    frames[0].save(made, "GIF", save_all=True, **more)
    write_atomic(path, made.getvalue())


def _image(picture: bytes, scale: int, theme: Theme) -> Any:
    from PIL import Image

    image = Image.frombytes("P", (SCREEN_WIDTH, SCREEN_HEIGHT), unpacked(picture))
    image.putpalette([part for shade in theme.shades for part in shade])
    return image.resize((SCREEN_WIDTH * scale, SCREEN_HEIGHT * scale), Image.Resampling.NEAREST)


def _mp4(
    path: Path, pictures: Sequence[bytes], per_second: float, scale: int, theme: Theme
) -> None:
    """Raw grey pixels, once, into ffmpeg."""
    greys = tuple(sum(shade) // 3 for shade in theme.shades)
    with tempfile.TemporaryDirectory(prefix="daddy-film-") as scratch:
        raw, made = Path(scratch) / "film.raw", Path(scratch) / "film.mp4"
        with raw.open("wb") as stream:
            stream.writelines(unpacked(picture, greys) for picture in pictures)
        size, larger = f"{SCREEN_WIDTH}x{SCREEN_HEIGHT}", f"scale=iw*{scale}:ih*{scale}"
        argv = ["ffmpeg", "-loglevel", "error", "-y", "-f", "rawvideo", "-pix_fmt", "gray"]
        argv += ["-s", size, "-r", f"{per_second:.4f}", "-i", str(raw)]
        argv += ["-vf", f"{larger}:flags=neighbor", "-pix_fmt", "yuv420p"]
        argv += ["-movflags", "+faststart", str(made)]
        done = run_command(argv, _ENCODE_S)
        if done.returncode:
            said = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
            raise FileError(f"ffmpeg could not write {path}: {said[0]}", "write a GIF instead")
        write_atomic(path, made.read_bytes())


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
        """Take the pictures on screen at ``now`` (monotonic seconds), by agent."""
        for name, pixels in pictures:
            kept = self._kept.setdefault(name, deque())
            due = not kept or now - kept[-1][0] >= 1 / FILM_FPS
            if pixels is not None and due and pixels != self._last.get(name):
                self._last[name] = pixels
                kept.append((now, frame_codec.encode(pixels)))
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
        times, begin = [at for at, _ in kept], max(begin, kept[0][0])
        count = max(1, int((end - begin) * FILM_FPS))
        shown = [bisect_right(times, begin + number / FILM_FPS) - 1 for number in range(count)]
        pictures = {index: frame_codec.decode(kept[index][1]) for index in set(shown)}
        return [pictures[index] for index in shown]


class Films:
    """The reel of what is on screen, and the files made from it. :meth:`close` finishes them."""

    def __init__(self, clock: Clock) -> None:
        self.reel = Reel()
        self._clock = clock
        self._began, self._of = 0.0, ""
        self._files = 0
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._hand = ThreadPoolExecutor(1, "films")
        self._newest: deque[Future[None]] = deque(maxlen=2)
        """Films given to the hand last; each holds its pictures until it is written."""

    def take(self, act: Act, name: str, theme: Theme) -> str:
        """Do what a key asks for (CLIP, RECORD, SAVE) with agent ``name``; a word about it."""
        now = self._clock.monotonic()
        if act is Act.RECORD:
            self._began, self._of = now, name
            return f"recording {name}: R ends it, at most {REEL_S:.0f} s"
        if act is Act.SAVE:
            kind = "mp4" if shutil.which("ffmpeg") else "gif"
            return self._write(self._of, self._began, now, theme, kind)
        return self._write(name, now - CLIP_S, now, theme, "gif")

    def full(self, now: float) -> bool:
        return now - self._began >= REEL_S

    def said(self) -> str:
        """The outcome of a film since the last call, if any."""
        return "" if self._said.empty() else self._said.get()

    def next_path(self, kind: str) -> Path:
        """A name that says when: ``daddy-1790000000-1.gif``."""
        self._files += 1
        return Path(f"daddy-{round(self._clock.now())}-{self._files}.{kind}").resolve()

    def close(self) -> None:
        self._hand.shutdown(wait=True)
        while text := self.said():
            print(text, flush=True)

    def _write(self, name: str, begin: float, end: float, theme: Theme, kind: str) -> str:
        if len(self._newest) == self._newest.maxlen and not self._newest[0].done():
            return "not kept: two films before this one are still being written"
        pictures = self.reel.film(name, begin, end)
        if not pictures:
            return "there is no picture to keep yet"
        self._newest.append(self._hand.submit(self._save, self.next_path(kind), pictures, theme))
        return f"writing {len(pictures) / FILM_FPS:.0f} s of {name}"

    def _save(self, path: Path, pictures: list[bytes], theme: Theme) -> None:
        try:
            save_film(path, pictures, FILM_FPS, theme=theme)
            self._said.put(f"saved {path}")
        except (DaddyError, OSError) as error:
            self._said.put(f"no film: {error}")
