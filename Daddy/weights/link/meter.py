"""Progress of a transfer, for people: nothing for the first two seconds, then a line a second; one
every half minute where nobody sits before it (a log).

rsync's own display differs between its flavours, so what has arrived is read from the folder.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from Daddy.core.clock import Clock

QUIET_S = 2.0
STEP_S, LOG_STEP_S = 1.0, 30.0
MEGA = 1e6


@contextlib.contextmanager
def shown(label: str, total: int, clock: Clock, arriving: Path | None = None) -> Iterator[None]:
    """Show progress of the body on stderr; ``arriving`` is the folder that grows, if it is here."""
    stop = threading.Event()
    step_s = STEP_S if sys.stderr.isatty() else LOG_STEP_S

    def tell() -> None:
        begun = clock.monotonic()
        if clock.wait(stop, QUIET_S):
            return
        while True:
            done = folder_bytes(arriving) if arriving else None
            _print(label, done, total, clock.monotonic() - begun)
            if clock.wait(stop, step_s):
                break
        if sys.stderr.isatty():
            print(file=sys.stderr)

    thread = threading.Thread(target=tell, name="meter", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _print(label: str, done: int | None, total: int, seconds: float) -> None:
    amount = f"{total / MEGA:.1f} MB"
    if done is not None:
        amount = f"{min(done, total) / MEGA:.1f} of {amount}, {100 * min(done, total) // total} %"
    end = "\r" if sys.stderr.isatty() else "\n"
    print(f"{label}: {amount}, {seconds:.0f} s", end=end, file=sys.stderr, flush=True)


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below ``folder``; files may come and go meanwhile."""
    total = 0
    for root, _, names in os.walk(folder):  # passes over a folder that vanishes, as rglob does not
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(f"{root}/{name}").st_size
    return total
