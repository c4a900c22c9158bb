"""Defines the interface of a scheduler, implemented by ``slurm_scheduler`` and ``local_scheduler``.

A scheduler carries out commands and reports on jobs; ``planner`` makes all decisions.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from Daddy.cluster.orchestrator.action_types import Amend
from Daddy.cluster.orchestrator.controller_types import QueueJob, QueueReading, SiteLimits


@dataclass(frozen=True, slots=True)
class JobSpec:
    """Specifies one job for any scheduler; times in seconds."""

    token: str
    """The attempt's random name, part of the job's name: finds the job whose id is not known."""
    number: int
    """The attempt's number, counted from 1 through the whole run."""
    run_id: str
    """The run's name and a hash of its folder: distinguishes two runs of one person."""
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    """Variables to add to the environment of the node."""
    work_dir: Path
    logs: Path
    script: Path
    """Path at which the submitted script is stored."""
    time_limit_s: int
    warn_s: int
    """Seconds before the limit at which SIGUSR1 reaches the job."""
    after: int | None = None
    """Id of the job that must end before this one starts."""
    setup: tuple[str, ...] = ()
    """The site's shell lines, run before the program (Slurm only)."""
    request: Mapping[str, str | int] = field(default_factory=dict)
    """Options of sbatch, by long name."""
    nodes: int = 1
    """Nodes of the job; srun starts the program on each of several (Slurm only)."""
    export: tuple[str, ...] = ()
    """Names of further variables that the job takes over from the submitting shell (Slurm only)."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """The scheduler accepted the job."""

    job_id: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The scheduler refused the job with this message."""

    message: str
    permanent: bool = False
    """Submitting the same job again cannot succeed."""
    too_many_waiting: bool = False
    """The site limits waiting jobs, and the limit is reached."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The scheduler gave no result, as after a timeout; later listings show if the job exists."""

    message: str


SubmitResult = Submitted | Refused | Unanswered


@dataclass(frozen=True, slots=True)
class JobRef:
    """Identifies a job by id *and* token, because Slurm reuses ids."""

    job_id: int
    token: str


class Scheduler(Protocol):
    """Submits, lists and changes the jobs of one run."""

    def submit(self, spec: JobSpec) -> SubmitResult:
        """Submit a job once, without retries."""

    def snapshot(self) -> QueueReading:
        """List the person's jobs: this run's in ``jobs``, all others in ``others``."""

    def signal(self, job: JobRef) -> None:
        """Send SIGUSR1 to the job's program: it writes a checkpoint and exits."""

    def cancel(self, job: JobRef) -> None:
        """End a job: SIGTERM, and SIGKILL after the scheduler's grace time."""

    def amend(self, job: JobRef, change: Amend) -> None:
        """Change a waiting job (reasons: ``docs/decisions/24-waiting-successors.md``)."""

    def read_ended_jobs(self, jobs: Sequence[JobRef]) -> tuple[QueueJob, ...]:
        """Return those of the jobs that have ended as far as Slurm's accounting knows."""

    def read_drained_nodes(self, nodes: Collection[str]) -> Mapping[str, str]:
        """Return those of the nodes that are drained, with Slurm's reason for each."""

    def read_limits(self) -> tuple[SiteLimits, str]:
        """Return the site's job limits and, as text, their source."""
