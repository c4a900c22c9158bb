"""Buffers the last two minutes of each shown agent, and writes them as GIF or MP4 (Pillow, ffmpeg).

One thread writes the files, one after the other, each atomically, into the viewer's working folder.
Pictures are row-major at 2 bits a pixel (`core.shared_types.SCREEN_BYTES`).
"""

import io
import queue
import shutil
import tempfile
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import write_atomic
from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError, FileError, UsageError
from Daddy.core.run_subprocess import run_command
from Daddy.core.shared_types import SCREEN_HEIGHT, SCREEN_WIDTH
from Daddy.streaming.protocol import frame_codec
from Daddy.streaming.viewer.draw_list import THEMES, Theme, unpack_pixels
from Daddy.streaming.viewer.key_bindings import WindowAction

_ENCODE_S, _SCALE = 300.0, 2


def check_video_path(path: Path) -> None:
    """Raise UsageError if ``path`` cannot be written: no ffmpeg for MP4, or no such folder."""
    if path.suffix.lower() == ".mp4" and shutil.which("ffmpeg") is None:
        raise UsageError(
            f"{path} needs ffmpeg, which is not on this machine's PATH",
            "install ffmpeg, or write a GIF: --gif FILE",
        )
    if not path.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {path.absolute().parent}", "make that folder first")


def write_video(
    path: Path,
    pictures: Sequence[bytes],
    per_second: float,
    report: Callable[[str], None] = lambda _: None,
    theme: Theme = THEMES[1],
) -> None:
    """Write `pictures` to `path` at twice their size: MP4 for .mp4, else GIF. FileError.

    `report` gets a line of progress with each picture of a GIF.
    """
    if not pictures:
        raise FileError(f"nothing was played, so {path} was not written", "play for longer")
    if path.suffix.lower() == ".mp4":
        _mp4(path, pictures, per_second, theme)
    else:
        _gif(path, pictures, per_second, report, theme)


def _gif(
    path: Path, pictures: Sequence[bytes], per_second: float, report: Callable[[str], None],
    theme: Theme,
) -> None:  # fmt: skip
    """Write a GIF; equal pictures in a row become one picture that is shown for longer."""
    runs = [(picture, len(list(same))) for picture, same in groupby(pictures)]

    def draw(number: int, picture: bytes) -> Any:
        report(f"drew {number:,} of {len(runs):,} different pictures")
        return _image(picture, theme)

    frames = (draw(number, picture) for number, (picture, _) in enumerate(runs))
    tick_ms = 10 * round(100 / per_second)
    gif, durations = io.BytesIO(), [tick_ms * times for _, times in runs]
    more = {"append_images": frames, "duration": durations, "loop": 0, "optimize": False}
    next(frames).save(gif, "GIF", save_all=True, **more)
    write_atomic(path, gif.getvalue())


def _image(picture: bytes, theme: Theme) -> Any:
    from PIL import Image

    image = Image.frombytes("P", (SCREEN_WIDTH, SCREEN_HEIGHT), unpack_pixels(picture))
    image.putpalette([part for shade in theme.shades for part in shade])
    return image.resize((SCREEN_WIDTH * _SCALE, SCREEN_HEIGHT * _SCALE), Image.Resampling.NEAREST)


def _mp4(path: Path, pictures: Sequence[bytes], per_second: float, theme: Theme) -> None:
    """Write an MP4 from raw grey pixels with ffmpeg."""
    greys = tuple(sum(shade) // 3 for shade in theme.shades)
    with tempfile.TemporaryDirectory(prefix="daddy-film-") as scratch:
        raw, video = Path(scratch) / "film.raw", Path(scratch) / "film.mp4"
        with raw.open("wb") as stream:
            stream.writelines(unpack_pixels(picture, greys) for picture in pictures)
        size, larger = f"{SCREEN_WIDTH}x{SCREEN_HEIGHT}", f"scale=iw*{_SCALE}:ih*{_SCALE}"
        argv = ["ffmpeg", "-loglevel", "error", "-y", "-f", "rawvideo", "-pix_fmt", "gray"]
        argv += ["-s", size, "-r", f"{per_second:.4f}", "-i", str(raw)]
        argv += ["-vf", f"{larger}:flags=neighbor", "-pix_fmt", "yuv420p"]
        argv += ["-movflags", "+faststart", str(video)]
        result = run_command(argv, _ENCODE_S)
        if result.returncode:
            raise FileError(f"ffmpeg could not write {path}: {result.fault}", "write a GIF instead")
        write_atomic(path, video.read_bytes())


BUFFER_S = 120.0
CLIP_S = 30.0
CLIP_FPS = 12.5
"""Pictures a second of a clip: 8 hundredths of a second each, the unit in which a GIF counts."""
_MOST_AGENTS = 32


class ClipBuffer:
    """Holds the pictures shown in the last ``BUFFER_S`` seconds, by agent.

    Each picture is stored whole, compressed to about 600 bytes; at most 1,500 per agent.
    """

    def __init__(self) -> None:
        self._pictures: dict[str, deque[tuple[float, bytes]]] = {}
        self._last: dict[str, bytes] = {}

    def add_pictures(self, pictures: Iterable[tuple[str, bytes | None]], now: float) -> None:
        """Store the pictures on screen at ``now`` (monotonic seconds), by agent name."""
        for name, pixels in pictures:
            stored = self._pictures.setdefault(name, deque())
            due = not stored or now - stored[-1][0] >= 1 / CLIP_FPS
            if pixels is not None and due and pixels != self._last.get(name):
                self._last[name] = pixels
                stored.append((now, frame_codec.encode(pixels)))
        for name, stored in list(self._pictures.items()):
            while len(stored) > 1 and stored[1][0] <= now - BUFFER_S:
                stored.popleft()
            old = not stored or stored[-1][0] < now - 2 * BUFFER_S
            if old or len(self._pictures) > _MOST_AGENTS:
                del self._pictures[name]
                self._last.pop(name, None)

    def pictures_between(self, name: str, begin: float, end: float) -> list[bytes]:
        """Return the agent's pictures from ``begin`` to ``end`` at ``CLIP_FPS``, or []."""
        stored = list(self._pictures.get(name, ()))
        if not stored or stored[0][0] >= end:
            return []
        times, begin = [at for at, _ in stored], max(begin, stored[0][0])
        count = max(1, int((end - begin) * CLIP_FPS))
        shown = [bisect_right(times, begin + number / CLIP_FPS) - 1 for number in range(count)]
        pictures = {index: frame_codec.decode(stored[index][1]) for index in set(shown)}
        return [pictures[index] for index in shown]


class ClipWriter:
    """Buffers the pictures on screen and writes clips; :meth:`close` waits for the files."""

    def __init__(self, clock: Clock) -> None:
        self.buffer = ClipBuffer()
        self._clock = clock
        self._recording_started, self._recorded_agent = 0.0, ""
        self._files = 0
        self._outcomes: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._executor = ThreadPoolExecutor(1, "films")
        self._pending_files: deque[Future[None]] = deque(maxlen=2)
        """The last files submitted; each holds its pictures in memory until it is written."""

    def do_action(self, action: WindowAction, name: str, theme: Theme) -> str:
        """Start a recording, or write it or the last 30 s; return a sentence for the header."""
        now = self._clock.monotonic()
        if action is WindowAction.RECORD:
            self._recording_started, self._recorded_agent = now, name
            return f"recording {name}: R ends it, at most {BUFFER_S:.0f} s"
        if action is WindowAction.SAVE:
            kind = "mp4" if shutil.which("ffmpeg") else "gif"
            return self._write(self._recorded_agent, self._recording_started, now, theme, kind)
        return self._write(name, now - CLIP_S, now, theme, "gif")

    def is_full(self, now: float) -> bool:
        return now - self._recording_started >= BUFFER_S

    def take_outcome(self) -> str:
        """Return a sentence on the next clip that was written or failed; "" if there is none."""
        return "" if self._outcomes.empty() else self._outcomes.get()

    def next_path(self, kind: str) -> Path:
        """Return a new path with the time and a number: ``daddy-1790000000-1.gif``."""
        self._files += 1
        return Path(f"daddy-{round(self._clock.now())}-{self._files}.{kind}").resolve()

    def close(self) -> None:
        self._executor.shutdown(wait=True)
        while text := self.take_outcome():
            print(text, flush=True)

    def _write(self, name: str, begin: float, end: float, theme: Theme, kind: str) -> str:
        pending = self._pending_files
        if len(pending) == pending.maxlen and not pending[0].done():
            return "not written: two clips are still being written"
        pictures = self.buffer.pictures_between(name, begin, end)
        if not pictures:
            return "there is no picture to write yet"
        pending.append(self._executor.submit(self._save, self.next_path(kind), pictures, theme))
        return f"writing {len(pictures) / CLIP_FPS:.0f} s of {name}"

    def _save(self, path: Path, pictures: list[bytes], theme: Theme) -> None:
        try:
            write_video(path, pictures, CLIP_FPS, theme=theme)
            self._outcomes.put(f"saved {path}")
        except (DaddyError, OSError) as error:
            self._outcomes.put(f"no clip was written: {error}")
