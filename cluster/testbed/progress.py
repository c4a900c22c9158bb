"""One line per step on stderr, and a sign of life every two seconds while something is awaited."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

TICK_S = 2.0


class ClusterError(Exception):
    """Something a person can act on: what happened, what to do, and the exit code."""

    def __init__(self, what: str, advice: str, code: int = 4) -> None:
        super().__init__(what)
        self.what, self.advice, self.code = what, advice, code


def say(text: str) -> None:
    """Print one progress line."""
    print(f"testbed: {text}", file=sys.stderr, flush=True)


def wait_until(
    what: str, ready: Callable[[], bool], timeout_s: float, poll_s: float = 0.05
) -> bool:
    """Wait for ``ready``; every two seconds a line says what is awaited. False: time is up."""
    begun = time.monotonic()
    told = begun
    while not ready():
        now = time.monotonic()
        if now - begun > timeout_s:
            return False
        if now - told >= TICK_S:
            told = now
            say(f"still waiting for {what} ({now - begun:.0f} s)")
        time.sleep(poll_s)
    return True
