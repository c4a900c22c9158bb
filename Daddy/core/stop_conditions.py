"""The reasons for which a process stops: its wall time, or a signal.

:class:`WallTimeLimit` and :class:`StopSignal` only report a reason; the loop ends in good order.
A :class:`SignalEvent` is set by a signal without a deadlock: a handler that sets an event itself
may wait for a lock that the interrupted wait holds, and one that raises may leave a lock taken for
good. So the handler writes a byte to a pipe, and a thread that reads the byte sets the event.
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
"""Signals that ask a process to stop."""
WALL_TIME = "wall time"
_DRAIN_MARGIN_S = 180.0
"""Seconds before the time limit that are kept for the last checkpoint and contribution."""
_DRAIN_SHARE = 0.2
"""Largest share of a short time limit that is kept."""


def drain_margin(time_limit_s: float) -> float:
    """Return the seconds before the scheduler's time limit at which a job stops by itself."""
    return min(_DRAIN_MARGIN_S, _DRAIN_SHARE * time_limit_s)


@dataclass(frozen=True, slots=True)
class WallTimeLimit:
    """The job's own deadline: min(start + ``max_runtime_s``, end time − margin); wall seconds.

    ``end_time`` is the scheduler's; None if unknown.
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
        """Return ``wall time`` once the deadline has passed, else None."""
        return WALL_TIME if self.clock.now() >= self.deadline else None


def block_signals() -> None:
    """Block the stop signals until a :class:`StopSignal` is installed.

    The block survives exec: a signal that arrives while the next program loads does not kill it.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


class StopSignal:
    """Records the first signal that asked this process to stop.

    A program that then goes on for a while sets `notice`: it is written to stderr at the signal,
    and from then on Ctrl-C raises KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self._reason: str | None = None
        self.notice = ""

    def install(self) -> StopSignal:
        """Handle SIGTERM, SIGUSR1 (Slurm's warning) and SIGINT; main thread only.

        A signal that arrived after :func:`block_signals` is handled now.
        """
        for number in SIGNALS:
            signal.signal(number, self._remember)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        return self

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        if self.notice and self._reason is None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            with contextlib.suppress(OSError):  # print is not for handlers: it may be interrupted
                os.write(2, f"{self.notice}; Ctrl-C again ends at once\n".encode())
        self._reason = self._reason or f"signal {signal.Signals(number).name}"

    def stop_reason(self) -> str | None:
        """Return ``signal SIGTERM`` or the like after a signal, else None."""
        return self._reason


def end_at_interrupted_imports() -> None:
    """Let SIGINT end this program at once while it imports; no change if it is handled already.

    Raised during an import, KeyboardInterrupt is lost or comes out as another error: numpy makes an
    ImportError of it, and callbacks of the import system drop it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGINT, _interrupt)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if "importlib" in frame.f_code.co_filename:
            os.write(2, b"interrupted\n")
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt


class SignalEvent(threading.Event):
    """An event that a signal handler may :meth:`trigger`; a thread sets it shortly afterwards.

    Holds a thread until then and two descriptors for ever: use one or two in a process.
    """

    def __init__(self) -> None:
        super().__init__()
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        threading.Thread(target=self._listen, name="signal-event", daemon=True).start()

    def trigger(self) -> None:
        """Request that the event be set, without taking a lock."""
        with contextlib.suppress(BlockingIOError):  # the pipe is full of earlier requests
            os.write(self._write_end, b"!")

    def _listen(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # for the main thread
        os.read(self._read_end, 1)
        self.set()


def event_on_signals(*numbers: int) -> SignalEvent:
    """Return an event that each of these signals sets from now on; main thread only."""
    event = SignalEvent()
    for number in numbers:
        signal.signal(number, lambda *_: event.trigger())
    return event
