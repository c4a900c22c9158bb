"""Door to time: the only module that asks what time it is or waits.

Two notions. ``now`` is wall time for stamps that people read; ``monotonic`` is for measuring and
for judging silence, because wall clocks of different machines must never be compared.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """What the rest of the project may know about time."""

    def now(self) -> float:
        """Wall time, seconds since 1970 (UTC)."""

    def monotonic(self) -> float:
        """Seconds that only grow; comparable within this process alone."""

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Wait until ``stop`` is set or ``seconds`` have passed; True when it was set."""


class SystemClock:
    """The real clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        return stop.wait(max(0.0, seconds))


def sleep(seconds: float) -> None:
    """Wait a bounded moment where no stop event exists (a retry at a door)."""
    time.sleep(max(0.0, seconds))
