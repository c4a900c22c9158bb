"""Pure: a job of the simulated site, and what became of its time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Stage(Enum):
    """Where a job is in its life."""

    BLOCKED = "waits for another job"
    WAITING = "waits"
    BOOTING = "boots"
    TRAINING = "trains"
    HUNG = "hangs"
    LEAVING = "leaves"
    DEAD = "its node is dead, and nobody knows yet"
    ENDED = "ended"


RUNNING = frozenset({Stage.BOOTING, Stage.TRAINING, Stage.HUNG, Stage.LEAVING, Stage.DEAD})

DRAINED, NOT_NEEDED, CRASHED = 10, 11, 1
"""Exit codes."""


@dataclass(slots=True, eq=False)
class Job:
    """One job; seconds since the month's beginning."""

    number: int
    track: int
    """Slot that it works for, for the picture."""
    submitted: float
    runs_s: float
    """After its start it leaves by itself."""
    limit_s: float
    after: Job | None = None
    token: str = ""
    stage: Stage = Stage.WAITING
    target: float = 0.0
    """Reading of the site's ageing clock from which it may start."""
    held: bool = False
    excluded: tuple[str, ...] = ()
    node: str = ""
    started: float = 0.0
    ended: float = 0.0
    word: str = "PENDING"
    exit_code: int | None = None
    trains_from: float | None = None
    trains_to: float = 0.0
    kept_s: float = 0.0
    """Training that was not lost."""
    silent_from: float | None = None

    @property
    def running(self) -> bool:
        return self.stage in RUNNING


@dataclass(slots=True)
class Books:
    """What became of the GPU time, in GPU seconds."""

    useful: float = 0.0
    allocated: float = 0.0
    allowed: float = 0.0
    submissions: int = 0
    starts: int = 0
    commands: int = 0
    """Slurm commands that the policy ran."""

    @property
    def used(self) -> float:
        """Share of what the cap allows that trained."""
        return self.useful / self.allowed if self.allowed else 0.0

    @property
    def idle(self) -> float:
        """Share of what was allocated that did not train."""
        return 1 - self.useful / self.allocated if self.allocated else 0.0


@dataclass(frozen=True, slots=True)
class Month:
    """What one month came to."""

    used: float
    """Share of the GPU-hours allowed that trained."""
    idle: float
    """Share of the GPU-hours allocated that did not."""
    submissions: float
    """A day."""
    commands: float
    """Slurm commands a day; only counted for ours."""
