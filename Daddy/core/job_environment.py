"""A scheduler's job: its environment variables, and the time that its start takes, phase by phase.

The controller sets the variables for every job, on Slurm and on the local queue alike; a learner
started by hand has none. The watch is started by the launcher, handed on through the environment
when the launcher becomes the learner, and written with the first update. A phase is what the
learner waits for; what is loaded beside it is in no phase.
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
"""Variable: when the scheduler will end the job, wall seconds; empty where it cannot be asked."""
RELEASE = "DADDY_RELEASE"
"""Variable: name of the release the job runs from."""

SLOT = "DADDY_SLOT"
"""Variable: the slot that the launcher claimed for the program it becomes."""
TERM = "DADDY_TERM"
"""Variable: the term of that claim."""
STARTUP = "DADDY_BOOT"
"""Variable: how long the launcher took, for :class:`Daddy.core.job_environment.StartupTimer`."""


@dataclass(frozen=True, slots=True)
class Job:
    """This process's job; without one ``job_id`` and ``release`` are empty, ``end_time`` None."""

    job_id: str
    end_time: float | None
    release: str
    restarts: int = 0
    """How often the scheduler itself put the job back into the queue."""
    slot: int | None = None
    """Slot and term that the launcher claimed in this process; None without a launcher."""
    term: int | None = None


def read_job(environ: Mapping[str, str]) -> Job:
    """The job that ``environ`` speaks of; a garbled end time counts as unknown."""
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
    """A stop watch with names. ``started`` and stamps are wall seconds of this host."""

    def __init__(self, clock: Clock, started: float | None = None) -> None:
        self._clock = clock
        self.started = clock.now() if started is None else started
        self._last = self.started
        self._phases: dict[str, float] = {}
        self._moved = threading.Condition()

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], clock: Clock) -> StartupTimer:
        """The launcher's watch, going on; one that begins now where there is none."""
        try:
            told = json.loads(environ[STARTUP])
            boot = cls(clock, float(told["started"]))
            boot._last = float(told["last"])
            boot._phases = {str(name): float(spent) for name, spent in told["phases"].items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            return cls(clock)
        return boot

    def mark(self, phase: str) -> None:
        """The time since the last mark went into ``phase``."""
        now = self._clock.now()
        with self._moved:
            self._phases[phase] = self._phases.get(phase, 0.0) + max(0.0, now - self._last)
            self._last = now
            self._moved.notify_all()

    def has_passed(self, phase: str) -> bool:
        """Whether that phase has been marked."""
        return phase in self._phases

    def wait(self, phase: str, seconds: float) -> bool:
        """Wait until that phase is marked, at most so long; whether it was."""
        with self._moved:
            return self._moved.wait_for(lambda: phase in self._phases, seconds)

    def facts(self) -> dict[str, object]:
        """``boot_s`` since the start and ``phases``, in seconds."""
        phases = {name: round(spent, 3) for name, spent in self._phases.items()}
        return {"boot_s": round(max(0.0, self._last - self.started), 3), "phases": phases}

    def to_environment(self) -> dict[str, str]:
        """The variable that hands the watch to the next program of this process."""
        told = {"started": self.started, "last": self._last, "phases": self._phases}
        return {STARTUP: json.dumps(told)}
