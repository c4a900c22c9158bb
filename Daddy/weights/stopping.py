"""A signal that asks a waiting loop to end: an event to wait on, and the reason afterwards."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class Stopping:
    """Set by SIGTERM, SIGINT or SIGHUP."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.reason = ""

    def install(self) -> Stopping:
        """Listen; main thread only."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._remember)
        return self

    def is_set(self) -> bool:
        """Whether it is time to end."""
        return self.event.is_set()

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self.reason = self.reason or signal.Signals(number).name
        self.event.set()
