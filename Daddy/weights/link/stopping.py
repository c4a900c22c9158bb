"""A signal that asks a waiting loop to end: an event to wait on, and the reason afterwards.

Work inside :meth:`Stopping.interruptible` is broken off at once, so that a stop never waits for a
slow line: every transfer may be interrupted anywhere, and whoever waits for a child there does so
for a bounded time once it was (``core.process.run``).
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from Daddy.core.signals import Alarm


class StopNow(BaseException):
    """Raised in the main thread to leave interruptible work."""


class Stopping:
    """Set by SIGTERM, SIGINT or SIGHUP."""

    def __init__(self) -> None:
        self.event = Alarm()
        self.reason = ""
        self._inside = False

    def install(self) -> Stopping:
        """Listen; main thread only."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._remember)
        return self

    def is_set(self) -> bool:
        """Whether it is time to end."""
        return bool(self.reason) or self.event.is_set()

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Leave the body as soon as a signal comes."""
        self._inside = True
        try:
            yield
        except StopNow:
            pass
        finally:
            self._inside = False

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self.reason = self.reason or signal.Signals(number).name
        self.event.ring()
        if self._inside:
            self._inside = False
            raise StopNow
