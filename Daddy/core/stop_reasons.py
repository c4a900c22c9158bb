"""The reasons for which a process leaves: its wall time, or a signal.

:class:`WallTimeLimit` and :class:`StopSignal` only report a reason; the loop ends in good order.
A :class:`SignalEvent` is set by a signal without a deadlock: a handler that sets an event itself
may wait for a lock that the interrupted wait holds, and a handler that raises may leave a lock of
the library taken for good. So the handler writes a byte to a pipe, and a thread that reads the
byte sets the event.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from dataclasses import dataclass
from types import FrameType

from Daddy.core.clock import Clock

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
"""What asks a process to leave."""
_DRAIN_MARGIN_S = 180.0
"""Time kept before the real end for the last checkpoint and the last contribution."""
_DRAIN_SHARE = 0.2
"""… but never more than this share of a short limit."""


def drain_margin(time_limit_s: float) -> float:
    """Seconds before the scheduler's limit at which a job leaves by itself."""
    return min(_DRAIN_MARGIN_S, _DRAIN_SHARE * time_limit_s)


@dataclass(frozen=True, slots=True)
class WallTimeLimit:
    """The job's own deadline: min(start + ``max_runtime_s``, real end − margin); wall seconds.

    ``end_time`` is what the scheduler says; None when nobody can say.
    """

    started: float
    max_runtime_s: float
    end_time: float | None
    time_limit_s: float
    clock: Clock

    @property
    def deadline(self) -> float:
        own = self.started + self.max_runtime_s
        if self.end_time is None:
            return own
        return min(own, self.end_time - drain_margin(self.time_limit_s))

    def stop_reason(self) -> str | None:
        """``wall time`` once the deadline has passed."""
        return "wall time" if self.clock.now() >= self.deadline else None


def block_signals() -> None:
    """Keep what asks this process to leave until a :class:`StopSignal` listens.

    It survives becoming another program, which would otherwise die of a signal while it loads.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


class StopSignal:
    """Remembers the first signal that asked this process to leave."""

    def __init__(self) -> None:
        self._reason: str | None = None

    def install(self) -> StopSignal:
        """Listen for SIGTERM, SIGUSR1 (Slurm's warning) and SIGINT; main thread only.

        One that came while :func:`block_signals` held them back is heard now.
        """
        for number in SIGNALS:
            signal.signal(number, self._remember)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        return self

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self._reason = self._reason or f"signal {signal.Signals(number).name}"

    def stop_reason(self) -> str | None:
        """``signal SIGTERM`` and the like once one has come."""
        return self._reason


class SignalEvent(threading.Event):
    """An event that a handler may :meth:`trigger`; it is set a moment later.

    Keeps a thread until then, and two descriptors for good: meant for one or two in a process.
    """

    def __init__(self) -> None:
        super().__init__()
        self._ear, self._bell = os.pipe()
        os.set_blocking(self._bell, False)
        threading.Thread(target=self._listen, name="alarm", daemon=True).start()

    def trigger(self) -> None:
        """Have it set. Takes no lock; once is enough."""
        with contextlib.suppress(BlockingIOError):  # rung so often that it is surely heard
            os.write(self._bell, b"!")

    def _listen(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # the main thread's
        os.read(self._ear, 1)
        self.set()


def event_on_signals(*numbers: int) -> SignalEvent:
    """An event that each of these signals sets from now on; main thread only."""
    alarm = SignalEvent()
    for number in numbers:
        signal.signal(number, lambda *_: alarm.trigger())
    return alarm
