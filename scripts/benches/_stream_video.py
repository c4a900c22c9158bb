"""What video encoders make of the corpus: MJPEG and H.264 by ffmpeg, where it is installed.

They are peers of this bench only; nothing that is sent needs them. The pictures go in as raw grey
and come out in containers that add almost nothing; ffmpeg's own processor time is counted, and what
it takes to read the same pictures and throw them away is taken off.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.vocabulary import SCREEN_HEIGHT, SCREEN_WIDTH
from scripts.benches._stream_corpus import grey

ENCODERS = {
    "mjpeg": ("-c:v", "mjpeg", "-pix_fmt", "yuvj420p", "-q:v", "5", "-f", "mjpeg"),
    "h264": ("-c:v", "libx264", "-preset", "veryfast", "-tune", "zerolatency", "-crf", "23",
             "-pix_fmt", "yuv420p", "-f", "h264"),
}  # fmt: skip
"""As a live stream would use them; both lose detail, ours loses none."""
_NOTHING = ("-f", "null")
_LIMIT_S = 600


def peers(pictures: Sequence[bytes]) -> dict[str, object]:
    """Mean bytes and processor time of each encoder, or why there is none."""
    program = shutil.which("ffmpeg")
    if program is None:
        return dict.fromkeys(ENCODERS, "ffmpeg is not installed here (apt-get install ffmpeg)")
    with tempfile.TemporaryDirectory(prefix="daddy-video-") as folder:
        raw = Path(folder) / "raw"
        raw.write_bytes(b"".join(grey(one).tobytes() for one in pictures))
        read_s = _encode(program, raw, _NOTHING)[1]
        return {
            name: _figures(_encode(program, raw, how), read_s, len(pictures))
            for name, how in ENCODERS.items()
        }


def _figures(made: tuple[int, float], read_s: float, count: int) -> dict[str, float]:
    size, cpu_s = made
    spent = max(0.0, cpu_s - read_s) / count
    return {"bytes_per_frame": size / count, "cpu_us_per_frame": spent * 1e6}


def _encode(program: str, raw: Path, how: Sequence[str]) -> tuple[int, float]:
    """Bytes made and seconds of processor; one thread, so that nothing is hidden."""
    made = raw.with_name("made")
    given = ("-f", "rawvideo", "-pix_fmt", "gray", "-s", f"{SCREEN_WIDTH}x{SCREEN_HEIGHT}",
             "-r", "15", "-i", str(raw))  # fmt: skip
    argv = [program, "-y", "-v", "error", "-threads", "1", *given, "-threads", "1", *how, str(made)]
    before = _children_s()
    subprocess.run(argv, check=True, timeout=_LIMIT_S)
    return made.stat().st_size if made.exists() else 0, _children_s() - before


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
