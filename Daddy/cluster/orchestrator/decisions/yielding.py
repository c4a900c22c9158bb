"""Pure: what happens when the person's own other job waits for the same cap.

It comes first: our waiting jobs are held back, one slot writes its checkpoint and leaves, and is
filled again once the other job runs. Jobs of another run of ours are no such guests: two runs that
made room for each other would never train.
"""

from __future__ import annotations

from collections.abc import Sequence

from Daddy.cluster.orchestrator.actions import Action, Signal
from Daddy.cluster.orchestrator.records import (
    Attempt,
    JobState,
    Ledger,
    QueueJob,
    Snapshot,
    Waits,
)


def guests(snapshot: Snapshot) -> tuple[QueueJob, ...]:
    """The person's own other jobs that wait for a running place."""
    return tuple(
        job
        for job in snapshot.others
        if not job.run_id and job.state is JobState.PENDING and job.waits is Waits.CAP
    )


def make_room(ledger: Ledger, waiting: Sequence[QueueJob], slots: int) -> list[Action]:
    """Ask one slot to leave, unless one is leaving or empty already."""
    if not waiting:
        return []
    training = [one for one in ledger.live if one.training]
    leaving = [one for one in ledger.live if one.left_ts is not None or one.requests.signalled_ts]
    if leaving or len(training) < slots:
        return []
    last = max(training, key=_ends)
    if last.job_id is None:
        return []
    said = f"your job {waiting[0].job_id} waits for a place: it comes first"
    return [Signal(last.token, last.job_id, said)]


def _ends(attempt: Attempt) -> tuple[float, int]:
    """Whose checkpoint is the freshest to give up: the job that has run longest leaves anyway."""
    return (-(attempt.started_ts or 0.0), attempt.number)
