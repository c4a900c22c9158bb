"""The interface of a scheduler, and the three answers to a submission.

Implementations: ``slurm_scheduler`` and ``local_scheduler``. They translate and nothing else; every
decision is in ``plan``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from Daddy.cluster.orchestrator.controller_records import QueueJob, QueueReading, SiteLimits
from Daddy.cluster.orchestrator.plan_actions import Amend


@dataclass(frozen=True, slots=True)
class JobSpec:
    """Everything one job needs under any scheduler. Times are seconds."""

    token: str
    number: int
    run_id: str
    """Name and place of the run in one word: tells the jobs of two runs of one person apart."""
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    """Variables beyond the environment of the place."""
    work_dir: Path
    logs: Path
    script: Path
    """File for the text that was submitted."""
    time_limit_s: int
    warn_s: int
    """Seconds before the limit at which SIGUSR1 reaches the job."""
    after: int | None = None
    """Job id that must end first."""
    setup: tuple[str, ...] = ()
    """Shell lines that come first (Slurm only)."""
    request: Mapping[str, str | int] = field(default_factory=dict)
    """Options of Slurm, by long name."""
    export: tuple[str, ...] = ()
    """Names of further variables that the job takes over from the submitting shell (Slurm only)."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """The job exists."""

    job_id: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The job does not exist, by the scheduler's own word."""

    why: str
    for_good: bool = False
    limit: bool = False
    """The site counts waiting jobs, and the count is full."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The job may exist: only listings can tell."""

    why: str


Answer = Submitted | Refused | Unanswered


@dataclass(frozen=True, slots=True)
class JobRef:
    """One job, by id *and* token: an id alone may have been given to another job since."""

    job_id: int
    token: str


class Scheduler(Protocol):
    """A queue with running and waiting jobs of one run."""

    def submit(self, spec: JobSpec) -> Answer:
        """Queue one job; never retries."""

    def snapshot(self) -> QueueReading:
        """Every job of this run in one listing."""

    def signal(self, job: JobRef) -> None:
        """Ask a running job to checkpoint and leave (SIGUSR1 to the job's program)."""

    def cancel(self, job: JobRef) -> None:
        """End a job: SIGTERM, and SIGKILL after the scheduler's own patience."""

    def amend(self, job: JobRef, change: Amend) -> None:
        """Change a waiting job in its place (effects on its age: decision 24)."""

    def read_ends(self, jobs: Sequence[JobRef]) -> tuple[QueueJob, ...]:
        """The ends of jobs that are gone from the listing, as far as accounting remembers."""

    def read_limits(self) -> tuple[SiteLimits, str]:
        """The limits of the site, as far as they can be read, and their places."""
