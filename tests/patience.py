"""Waits in tests for a condition, with a longer timeout for busy machines."""

import time
from collections.abc import Callable

PATIENCE_S = 300.0
"""Timeout of waits that only a test without an end reaches."""
_BUSY = 12
"""Factor of all timeouts, for machines on which other processes use the same cores."""


def until(condition: Callable[[], object], timeout_s: float = 20.0, poll_s: float = 0.05) -> bool:
    """Wait for a condition; return False after the timeout. ``timeout_s``: for an idle machine."""
    deadline = time.monotonic() + _BUSY * timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(poll_s)
    return bool(condition())
