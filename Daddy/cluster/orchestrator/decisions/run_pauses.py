"""Pure. Finds the reasons to submit nothing, however many slots are empty.

A *pause* lasts until the person runs ``start`` again: files of the Python environment are missing,
an administrator holds a job, another user cancelled one, or several were cancelled within a minute
and not by the controller (a site without accounting does not name the canceller). One job that the
person cancels is merely replaced. A *block* lasts as long as its cause: the budget is used up, or a
job of ours can never start.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import (
    Attempt,
    JobOutcome,
    JobState,
    Ledger,
    Snapshot,
    WaitReason,
)
from Daddy.core.errors import ExitCode

_AT_ONCE_S = 60.0
_PURGED = re.compile(rf"exit code {ExitCode.PACKAGES_MISSING:d}\b")
_LASTING = (WaitReason.BUDGET, WaitReason.NEVER)


@dataclass(frozen=True, slots=True)
class Block:
    """Holds the reason to submit nothing; ``holds_waiting``: waiting jobs are held as well."""

    reason: str
    holds_waiting: bool = False


def find_block(
    ledger: Ledger, queue: Snapshot, policy: ControllerPolicy, now: float
) -> Block | None:
    """Return a Block if the budget is used up or a job can never start, or None."""
    if policy.budget_s < inf:
        starts = (job.started_ts for job in ledger.live if job.started_ts is not None)
        if ledger.used_s + sum(now - start for start in starts) >= policy.budget_s:
            reason = f"the budget of {policy.budget_s / 3600:,.0f} hours of jobs is used"
            return Block(reason, holds_waiting=True)
    for job in queue.jobs:
        if job.state is JobState.PENDING and job.wait_reason in _LASTING:
            return Block(f"job {job.job_id} cannot start ({job.slurm_reason}): no other is queued")
    return None


def find_pause_reason(ledger: Ledger, snapshot: Snapshot, policy: ControllerPolicy) -> str | None:
    """Return the reason to pause the run (a purge, held or cancelled jobs), or None."""
    for attempt in ledger.ended_or_rejected:
        if (attempt.ended_ts or 0.0) >= ledger.start_seen_ts and _PURGED.match(attempt.reason):
            why = "the environment was purged: ./scripts/install"
            return f"job {attempt.job_id} cannot import its packages: {why}"
    for job in snapshot.jobs:
        if job.state is JobState.PENDING and job.wait_reason is WaitReason.ADMIN:
            return f"an administrator holds job {job.job_id} ({job.slurm_reason})"
    cancelled = _cancelled(ledger)
    for attempt in cancelled:
        if attempt.canceller is not None:
            return f"user {attempt.canceller} cancelled job {attempt.job_id}"
    for earlier, later in pairwise(cancelled):
        apart_s = (later.ended_ts or 0.0) - (earlier.ended_ts or 0.0)
        if apart_s <= _AT_ONCE_S + policy.pass_s:
            ids = f"{earlier.job_id}, {later.job_id}"
            return f"jobs {ids} were cancelled together, and not by the controller"
    return None


def _cancelled(ledger: Ledger) -> list[Attempt]:
    """Return attempts cancelled since the last ``start`` by others, oldest first."""
    cancelled = [
        attempt
        for attempt in ledger.ended_or_rejected
        if attempt.outcome is JobOutcome.CANCELLED
        and not attempt.requests.dismissed
        and (attempt.ended_ts or 0.0) >= ledger.start_seen_ts
    ]
    return sorted(cancelled, key=lambda attempt: attempt.ended_ts or 0.0)
