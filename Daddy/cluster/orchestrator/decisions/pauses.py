"""Pure: when somebody above us wants the run to stand still.

An administrator's hold, a job cancelled by another user, or several cancelled at once without our
wish (a site without accounting does not say by whom): then nothing is submitted until the person
says ``start`` again. One job that the person cancels by hand is merely replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from Daddy.cluster.orchestrator.control_parameters import Policy
from Daddy.cluster.orchestrator.records import (
    Attempt,
    JobState,
    Ledger,
    Outcome,
    Snapshot,
    Waits,
)

_AT_ONCE_S = 60.0


def find(ledger: Ledger, snapshot: Snapshot, policy: Policy) -> str | None:
    """Why to pause, in words; None to go on."""
    for job in snapshot.jobs:
        if job.state is JobState.PENDING and job.waits is Waits.ADMIN:
            return f"an administrator holds job {job.job_id} ({job.why})"
    cancelled = _cancelled(ledger)
    for attempt in cancelled:
        if attempt.canceller is not None:
            return f"user {attempt.canceller} cancelled job {attempt.job_id}"
    together = _together(cancelled, _AT_ONCE_S + policy.pass_s)
    if together:
        ids = ", ".join(str(one.job_id) for one in together)
        return f"jobs {ids} were cancelled at once, and not by us"
    return None


def _cancelled(ledger: Ledger) -> list[Attempt]:
    """Cancelled since the person last said start, without our wish, oldest first."""
    found = [
        one
        for one in ledger.over
        if one.outcome is Outcome.CANCELLED
        and not one.requests.dismissed
        and (one.ended_ts or 0.0) >= ledger.started_ts
    ]
    return sorted(found, key=lambda one: one.ended_ts or 0.0)


def _together(cancelled: Sequence[Attempt], within_s: float) -> list[Attempt]:
    for earlier, later in pairwise(cancelled):
        if (later.ended_ts or 0.0) - (earlier.ended_ts or 0.0) <= within_s:
            return [earlier, later]
    return []
