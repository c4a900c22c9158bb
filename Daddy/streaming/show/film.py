"""Door to Pillow, and to ffmpeg where it is installed: pictures become a GIF or an MP4.

Pictures are row-major at 2 bits a pixel (`core.vocabulary.SCREEN_BYTES`). Files appear whole.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from Daddy.core.errors import FileError, UsageError
from Daddy.core.files import write_atomic
from Daddy.core.process import run
from Daddy.core.vocabulary import SCREEN_HEIGHT, SCREEN_WIDTH
from Daddy.streaming.show.drawing import THEMES, Theme, unpacked

_ENCODE_S = 300.0


def check(path: Path) -> None:
    """UsageError now, and not after minutes of play, when `path` could not be written later."""
    if path.suffix.lower() == ".mp4" and shutil.which("ffmpeg") is None:
        raise UsageError(
            f"{path} needs ffmpeg, which is not on this machine's PATH",
            "install ffmpeg, or write a GIF: --gif FILE",
        )
    if path.suffix.lower() == ".gif":
        _pillow()
    if not path.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {path.absolute().parent}", "make it first")


def save_film(
    path: Path,
    pictures: Sequence[bytes],
    per_second: float,
    scale: int = 2,
    theme: Theme = THEMES[2],
) -> None:
    """Write `pictures` as .gif or .mp4, `scale` times as large. FileError when that fails."""
    if not pictures:
        raise FileError(f"nothing was played, so {path} was not written", "play for longer")
    if path.suffix.lower() == ".mp4":
        _mp4(path, pictures, per_second, scale, theme)
    else:
        _gif(path, pictures, per_second, scale, theme)


def _gif(
    path: Path, pictures: Sequence[bytes], per_second: float, scale: int, theme: Theme
) -> None:
    """Equal pictures in a row become one that stays longer: half of a game is waiting."""
    shown = [(pictures[0], 1)]
    for picture in pictures[1:]:
        last, times = shown[-1]
        shown[-1:] = [(last, times + 1)] if picture == last else [(last, times), (picture, 1)]
    frames = [_image(picture, scale, theme) for picture, _ in shown]
    tick_ms = 10 * round(100 / per_second)
    with tempfile.TemporaryDirectory(prefix="daddy-film-") as scratch:
        made = Path(scratch) / "film.gif"
        frames[0].save(
            made,
            save_all=True,
            append_images=frames[1:],
            duration=[tick_ms * times for _, times in shown],
            loop=0,
            optimize=False,
        )
        write_atomic(path, made.read_bytes())


def _image(picture: bytes, scale: int, theme: Theme) -> Any:
    pillow = _pillow()
    image = pillow.frombytes("P", (SCREEN_WIDTH, SCREEN_HEIGHT), unpacked(picture))
    image.putpalette([part for shade in theme.shades for part in shade])
    return image.resize((SCREEN_WIDTH * scale, SCREEN_HEIGHT * scale), pillow.Resampling.NEAREST)


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise UsageError("a GIF needs the package pillow", "pip install pillow") from error
    return Image


def _mp4(
    path: Path, pictures: Sequence[bytes], per_second: float, scale: int, theme: Theme
) -> None:
    """Raw grey pixels, once, into ffmpeg."""
    greys = tuple(sum(shade) // 3 for shade in theme.shades)
    with tempfile.TemporaryDirectory(prefix="daddy-film-") as scratch:
        raw, made = Path(scratch) / "film.raw", Path(scratch) / "film.mp4"
        with raw.open("wb") as stream:
            stream.writelines(unpacked(picture, greys) for picture in pictures)
        size, wide = (
            f"{SCREEN_WIDTH}x{SCREEN_HEIGHT}",
            f"scale=iw*{scale}:ih*{scale}:flags=neighbor",
        )
        source = ["-f", "rawvideo", "-pix_fmt", "gray", "-s", size, "-r", f"{per_second:.4f}"]
        look = ["-vf", wide, "-pix_fmt", "yuv420p", "-movflags", "+faststart"]
        argv = ["ffmpeg", "-loglevel", "error", "-y", *source, "-i", str(raw), *look, str(made)]
        done = run(argv, _ENCODE_S)
        if done.returncode:
            said = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
            raise FileError(f"ffmpeg could not write {path}: {said[0]}", "write a GIF instead")
        write_atomic(path, made.read_bytes())
