"""The environment variables of a job, and a timer of the phases of its start.

The controller sets the variables for every job, on Slurm and on the local queue; a learner started
by hand has none. The launcher starts the timer and passes it on in a variable when it executes the
learner, which logs the phases with its first update. A phase is time that the learner waits;
loading that runs beside another phase is not counted.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from Daddy.core.clock import Clock

JOB_ID = "DADDY_JOB_ID"
"""Variable: the scheduler's id of the job, decimal."""
JOB_END_TIME = "DADDY_JOB_END_TIME"
"""Variable: wall time in seconds at which the scheduler ends the job; empty if unknown."""
RELEASE = "DADDY_RELEASE"
"""Variable: name of the release the job runs from."""

SLOT = "DADDY_SLOT"
"""Variable: the slot that the launcher claimed for the program it becomes."""
TERM = "DADDY_TERM"
"""Variable: the term of that claim."""
STARTUP = "DADDY_BOOT"
"""Variable: the launcher's :class:`StartupTimer` as JSON."""


@dataclass(frozen=True, slots=True)
class Job:
    """This process's job; outside a job, ``job_id``, ``release`` are "", ``end_time`` None."""

    job_id: str
    end_time: float | None
    release: str
    restarts: int = 0
    """Number of times that the scheduler requeued the job."""
    slot: int | None = None
    """Slot and term that the launcher claimed in this process; None without a launcher."""
    term: int | None = None


def read_job(environ: Mapping[str, str]) -> Job:
    """Read the job from its variables; an end time that is no number counts as unknown."""
    return Job(
        job_id=environ.get(JOB_ID) or environ.get("SLURM_JOB_ID", ""),
        end_time=_number(environ.get(JOB_END_TIME, "")),
        release=environ.get(RELEASE, ""),
        restarts=_count(environ.get("SLURM_RESTART_COUNT", "")) or 0,
        slot=_count(environ.get(SLOT, "")),
        term=_count(environ.get(TERM, "")),
    )


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value > 0 else None


class StartupTimer:
    """A timer of named phases. ``started`` is wall time of this host, in seconds."""

    def __init__(self, clock: Clock, started: float | None = None) -> None:
        self._clock = clock
        self.started = clock.now() if started is None else started
        self._last = self.started
        self._phases: dict[str, float] = {}
        self._marked = threading.Condition()

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], clock: Clock) -> StartupTimer:
        """Continue the launcher's timer; without one, start a new timer."""
        try:
            state = json.loads(environ[STARTUP])
            timer = cls(clock, float(state["started"]))
            timer._last = float(state["last"])
            timer._phases = {str(name): float(spent) for name, spent in state["phases"].items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            return cls(clock)
        return timer

    def mark(self, phase: str) -> None:
        """Add the time since the last mark to ``phase``."""
        now = self._clock.now()
        with self._marked:
            self._phases[phase] = self._phases.get(phase, 0.0) + max(0.0, now - self._last)
            self._last = now
            self._marked.notify_all()

    def has_passed(self, phase: str) -> bool:
        return phase in self._phases

    def wait(self, phase: str, seconds: float) -> bool:
        """Wait at most ``seconds`` until the phase is marked; return True if it is."""
        with self._marked:
            return self._marked.wait_for(lambda: phase in self._phases, seconds)

    def facts(self) -> dict[str, object]:
        """Return ``boot_s`` (start to last mark) and ``phases``, in seconds, for the event log."""
        phases = {name: round(spent, 3) for name, spent in self._phases.items()}
        return {"boot_s": round(max(0.0, self._last - self.started), 3), "phases": phases}

    def to_environment(self) -> dict[str, str]:
        """Return the variable by which the next program of this process continues the timer."""
        state = {"started": self.started, "last": self._last, "phases": self._phases}
        return {STARTUP: json.dumps(state)}
