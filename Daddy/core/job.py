"""Pure: what a scheduler's job is told about itself, and under which names.

The controller sets these variables for every job, on Slurm and on the local queue alike; a learner
started by hand has none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
BOOT = "DADDY_BOOT"
"""Variable: how long the launcher took, for :class:`Daddy.core.boot.Boot`."""


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
