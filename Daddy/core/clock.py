"""Adapter for time: the only module that reads a clock or waits.

``now`` is wall time, for time stamps. ``monotonic`` measures durations and decides that another
process has stopped sending heartbeats, because wall clocks of two machines are never compared.
"""

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """The interface to time for the rest of the project; tests pass a clock of their own."""

    def now(self) -> float:
        """Return wall time in seconds since 1970 (UTC)."""

    def monotonic(self) -> float:
        """Return seconds that only grow, comparable within this process alone."""

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Wait until ``stop`` is set or ``seconds`` have passed; return True if it was set."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        return stop.wait(max(0.0, seconds))


def sleep(seconds: float) -> None:
    """Sleep; for callers without a stop event, such as an adapter between two tries."""
    time.sleep(max(0.0, seconds))
