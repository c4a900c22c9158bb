"""Pure. Finds the reasons to submit nothing, however many slots are empty.

A *pause* stands until the person says ``start`` again: an administrator's hold, a job cancelled by
another user, or several cancelled at once without our wish (a site without accounting does not name
the canceller). One job that the person cancels by hand is merely replaced. A *block* stands as long
as its cause: a budget that is used up, or a job of ours that can never start.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import inf

from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_records import (
    Attempt,
    JobOutcome,
    JobState,
    Ledger,
    Snapshot,
    WaitReason,
)

_AT_ONCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Block:
    """A reason, and whether it is one for waiting jobs too."""

    reason: str
    holds_waiting: bool = False


def find_block(
    ledger: Ledger, snapshot: Snapshot, policy: ControllerPolicy, now: float
) -> Block | None:
    """The reason to submit nothing now; None to go on."""
    if policy.budget_s < inf:
        starts = (one.started_ts for one in ledger.live if one.started_ts is not None)
        if ledger.used_s + sum(now - start for start in starts) >= policy.budget_s:
            said = f"the budget of {policy.budget_s / 3600:,.0f} hours of jobs is used"
            return Block(said, holds_waiting=True)
    for job in snapshot.jobs:
        if job.state is JobState.PENDING and job.waits in (WaitReason.BUDGET, WaitReason.NEVER):
            return Block(f"job {job.job_id} cannot start ({job.why}): no further one is queued")
    return None


def find_pause_reason(ledger: Ledger, snapshot: Snapshot, policy: ControllerPolicy) -> str | None:
    """The reason to pause, in words; None to go on."""
    for job in snapshot.jobs:
        if job.state is JobState.PENDING and job.waits is WaitReason.ADMIN:
            return f"an administrator holds job {job.job_id} ({job.why})"
    cancelled = _cancelled(ledger)
    for attempt in cancelled:
        if attempt.canceller is not None:
            return f"user {attempt.canceller} cancelled job {attempt.job_id}"
    for earlier, later in pairwise(cancelled):
        apart_s = (later.ended_ts or 0.0) - (earlier.ended_ts or 0.0)
        if apart_s <= _AT_ONCE_S + policy.pass_s:
            ids = f"{earlier.job_id}, {later.job_id}"
            return f"jobs {ids} were cancelled at once, and not by us"
    return None


def _cancelled(ledger: Ledger) -> list[Attempt]:
    """Cancelled since the person last said start, without our wish, oldest first."""
    found = [
        attempt
        for attempt in ledger.over
        if attempt.outcome is JobOutcome.CANCELLED
        and not attempt.requests.dismissed
        and (attempt.ended_ts or 0.0) >= ledger.started_ts
    ]
    return sorted(found, key=lambda attempt: attempt.ended_ts or 0.0)
