"""Pure: why nothing more may be submitted, however many slots are empty."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from Daddy.cluster.orchestrator.control_parameters import Policy
from Daddy.cluster.orchestrator.records import JobState, Ledger, Snapshot, Waits

_HOPELESS = (Waits.BUDGET, Waits.NEVER)


@dataclass(frozen=True, slots=True)
class Stop:
    """A reason, and whether it is one for waiting jobs too."""

    reason: str
    holds_waiting: bool = False


def find(ledger: Ledger, snapshot: Snapshot, policy: Policy, now: float) -> Stop | None:
    """A budget that is used up, or a job of ours that can never start; None to go on."""
    if policy.budget_s < inf and ledger.used_s + _running_s(ledger, now) >= policy.budget_s:
        said = f"the budget of {policy.budget_s / 3600:,.0f} hours of jobs is used"
        return Stop(said, holds_waiting=True)
    for job in snapshot.jobs:
        if job.state is JobState.PENDING and job.waits in _HOPELESS:
            return Stop(f"job {job.job_id} cannot start ({job.why}): no further one is queued")
    return None


def _running_s(ledger: Ledger, now: float) -> float:
    return sum(now - one.started_ts for one in ledger.live if one.started_ts is not None)
