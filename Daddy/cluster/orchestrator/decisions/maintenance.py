"""Pure: what still fits before a maintenance.

A job whose limit reaches into a reservation waits until it is over. Made shorter in its place, it
keeps its age and starts at once; only as many as there are slots to fill, because what was made
shorter stays so: the others are to have their whole time once the maintenance is over.
"""

from __future__ import annotations

from Daddy.cluster.orchestrator.actions import Action, Amend
from Daddy.cluster.orchestrator.control_parameters import Policy
from Daddy.cluster.orchestrator.records import JobState, Ledger, Snapshot, Waits

_WORTH_S = 900.0
"""Less time than this is not worth a boot."""
_MARGIN_S = 120.0


def shorten(
    ledger: Ledger, snapshot: Snapshot, policy: Policy, fill: int, now: float
) -> list[Action]:
    """Shorter limits for up to ``fill`` jobs that wait for a reservation to be over."""
    begins = snapshot.maintenance_ts
    if begins is None:
        return []
    left = begins - now - _MARGIN_S
    if left < _WORTH_S or left >= policy.limit_s:
        return []
    known = {one.token: one for one in ledger.live}
    blocked = [
        job
        for job in snapshot.jobs
        if job.state is JobState.PENDING and job.waits is Waits.RESERVATION and job.token in known
    ]
    minutes = int(left // 60) * 60
    said = "shortened to end before the maintenance"
    return [
        Amend(job.token, job.job_id, said, limit_s=minutes)
        for job in blocked[:fill]
        if (known[job.token].requests.limit_s or policy.limit_s) > left
    ]
