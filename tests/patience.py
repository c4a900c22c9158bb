"""Waiting in tests: what comes soon costs nothing more, and a busy machine gets its time."""

import time
from collections.abc import Callable

_BUSY = 3
"""How much slower than here everything may be where others use the same cores."""


def until(true: Callable[[], object], timeout_s: float = 20.0, poll_s: float = 0.05) -> bool:
    """Wait for something to become true; whether it did. ``timeout_s`` is a quiet machine's."""
    deadline = time.monotonic() + _BUSY * timeout_s
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(poll_s)
    return bool(true())
