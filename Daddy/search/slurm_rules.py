"""Pure. Decides if a sweep must wait with a job, and reads the exit code of a job that ended.

The site limits the running jobs of one person, who may train with a controller beside the sweep: it
loses a slot if the sweep takes a place while one of its jobs makes room for the next.
"""

from collections import Counter
from collections.abc import Mapping

from Daddy.cluster.orchestrator.controller_types import (
    JobState,
    QueueJob,
    SiteLimits,
    Snapshot,
    WaitReason,
)
from Daddy.core.errors import ExitCode
from Daddy.core.settings import SlurmSettings

SWEEP = "sweep+"
"""Start of the run id of a sweep's jobs; the name of a controller's run has no "+"."""
_USUAL_SLOTS = SlurmSettings().max_running
_ENDED_BY_SLURM = (
    "BOOT_FAIL", "CANCELLED", "DEADLINE", "NODE_FAIL", "PREEMPTED", "REVOKED", "TIMEOUT",
)  # fmt: skip


def find_job_refusal(
    queue: Snapshot, ours: int, jobs: int, slots: Mapping[str, int], site: SiteLimits
) -> str:
    """Return the reason for which the sweep may submit no job now, "" if it may.

    `ours`: its jobs that wait or run, of at most `jobs`. `slots`: run id → slots of each controller
    that is alive. One that is known by its jobs in the queue alone counts with the usual four.
    """
    if ours >= jobs:
        return f"{ours} of at most {jobs} jobs of this sweep wait or run"
    others = [job for job in queue.others if job.state is not JobState.ENDED]
    for job in (*queue.jobs, *others):
        if job.state is JobState.PENDING and job.wait_reason is WaitReason.CAP:
            return f"job {job.job_id} waits for the site's limit of running jobs"
    theirs = [job for job in others if is_controllers(job)]
    running = Counter(job.run_id for job in theirs if job.state is JobState.RUNNING)
    runs = {*slots, *(job.run_id for job in theirs)}
    kept = {run: max(slots.get(run, _USUAL_SLOTS), running[run]) for run in runs}
    taken, single = sum(kept.values()), len(others) - len(theirs)
    slots_text = ", ".join([f"{kept[run]} for the slots of {run}" for run in sorted(kept)])
    used = f"{ours} by this sweep, {single} by other jobs{', ' * bool(slots_text)}{slots_text}"
    if site.max_running is not None and ours + single + taken >= site.max_running:
        return f"the site runs {site.max_running} jobs of a person: {used}"
    # A controller also submits a successor of each job ahead.
    if site.max_submitted is not None and ours + single + 2 * taken >= site.max_submitted:
        return f"the site takes {site.max_submitted} jobs of a person, also waiting ones: {used}"
    return ""


def is_controllers(job: QueueJob) -> bool:
    """Return True if a controller submitted this job of the person's other jobs."""
    return bool(job.run_id) and not job.run_id.startswith(SWEEP)


def read_exit_codes(
    goodbyes: Mapping[int, int], ranks: int, job: QueueJob | None
) -> dict[int, int | None]:
    """Return the exit code of each rank of a sweep's job; `goodbyes`: those in their last events.

    A rank without one has Slurm's, or was lost (None) if another rank has one. A job that Slurm
    ended, or that nobody knows (None), counts as drained, since its trial goes on from the
    checkpoint; so does one that found its trial in the hands of an earlier job.
    """
    slurms = job.exit_code if job else None
    if slurms is None or (job and job.slurm_state.startswith(_ENDED_BY_SLURM)):
        slurms = int(ExitCode.DRAINED)
    elif goodbyes and slurms:  # it is the worst one of all ranks
        slurms = None
    codes = {rank: goodbyes.get(rank, slurms) for rank in range(ranks)}
    early = ExitCode.NOT_NEEDED
    return {rank: ExitCode.DRAINED if code == early else code for rank, code in codes.items()}
