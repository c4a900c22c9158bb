"""Prints progress on stderr: one line per step, and one every two seconds of waiting."""

import sys
import time
from collections.abc import Callable

TICK_S = 2.0


class ClusterError(Exception):
    """Carries an error's cause, its remedy and the exit code."""

    def __init__(self, message: str, remedy: str, code: int = 4) -> None:
        super().__init__(message)
        self.message, self.remedy, self.code = message, remedy, code


def print_progress(text: str) -> None:
    """Print one progress line."""
    print(f"testbed: {text}", file=sys.stderr, flush=True)


def wait_until(
    name: str, ready: Callable[[], bool], timeout_s: float, poll_s: float = 0.05
) -> bool:
    """Wait until ``ready()``, printing a line every two seconds; return False after the timeout."""
    started = last_line = time.monotonic()
    while not ready():
        now = time.monotonic()
        if now - started > timeout_s:
            return False
        if now - last_line >= TICK_S:
            last_line = now
            print_progress(f"still waiting for {name} ({now - started:.0f} s)")
        time.sleep(poll_s)
    return True
