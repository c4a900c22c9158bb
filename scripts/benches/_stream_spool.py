"""Measures the age of a picture at the viewer when the shared directory is slow.

The job writes one folder and the relay reads another. A thread copies every file from one to the
other, and the watch request back, after a fixed delay. Everything else is as installed.
"""

import contextlib
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from Daddy.streaming.protocol.handshake import ensure_token
from Daddy.streaming.viewer.receiver import Receiver
from scripts.benches._stream_links import learner
from scripts.benches._stream_login import wait_for
from scripts.benches._stream_viewing import relay_and_viewer
from scripts.benches._stream_watcher import AGENTS, LOOK_S, Notes

DELAYS_S = (0.0, 0.5, 1.0)
SECONDS, QUICK_SECONDS = 20.0, 3.0
COPY_EVERY_S = 0.02


def measure(corpus: bytes, quick: bool) -> dict[str, dict[str, float]]:
    """Return the ages at display by the directory's delay in seconds."""
    delays = DELAYS_S[1:2] if quick else DELAYS_S
    return {f"{delay:g}": _late(corpus, delay, quick) for delay in delays}


def _late(corpus: bytes, delay_s: float, quick: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="daddy-spool-") as temporary:
        job, run, token = (Path(temporary) / name for name in ("job", "run", "token"))
        (run / "stream" / "spool").mkdir(parents=True)
        (job / "spool").mkdir(parents=True)
        ensure_token(token, "bench")
        with (
            _copier(job / "spool", run / "stream" / "spool", "*", delay_s),
            _copier(run / "stream", job, "wanted.json", delay_s),
            learner(job, corpus),
            relay_and_viewer(run, token) as receiver,
        ):
            return _watch(receiver, QUICK_SECONDS if quick else SECONDS)


@contextmanager
def _copier(source: Path, target: Path, names: str, delay_s: float) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=_copy_late, args=(source, target, names, delay_s, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(5)


def _copy_late(
    source: Path, target: Path, names: str, delay_s: float, stop: threading.Event
) -> None:
    copied, queue = dict[str, bytes](), deque[tuple[float, str, bytes]]()
    while not stop.wait(COPY_EVERY_S):
        now = time.monotonic()
        for path in source.glob(names):
            with contextlib.suppress(OSError):
                data = path.read_bytes() if path.is_file() else b""
                if data and data != copied.get(path.name):
                    copied[path.name] = data
                    queue.append((now + delay_s, path.name, data))
        while queue and queue[0][0] <= now:
            _, name, data = queue.popleft()
            (target / name).write_bytes(data)


def _watch(receiver: Receiver, seconds: float) -> dict[str, float]:
    wait_for(
        lambda: len(receiver.current_scene(AGENTS).frames) == AGENTS, "no picture came by the spool"
    )
    time.sleep(3.0)
    notes, began = Notes(), time.monotonic()
    while (now := time.monotonic()) < began + seconds:
        notes.add(receiver.current_scene(AGENTS).panels, now)
        time.sleep(LOOK_S)
    ages = [age for _, _, age in notes.shown] or [float("nan")]
    p50, p95 = np.percentile(ages, (50, 95))
    return {"age_p50_s": float(p50), "age_p95_s": float(p95)}
