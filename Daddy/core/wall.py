"""When a job must leave: before its wall time, when asked to, or when it lost its slot.

:class:`Wall` is the first trigger, :class:`StopSignal` the second and third. Both only *say* why;
leaving in good order is the loop's business.
"""

from __future__ import annotations

import signal
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
class Wall:
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


def hold_signals() -> None:
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

        One that came while :func:`hold_signals` held them back is heard now.
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
