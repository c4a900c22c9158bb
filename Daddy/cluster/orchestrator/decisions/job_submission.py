"""Pure. Decides which jobs are submitted, and which queued ones are held or cancelled."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from Daddy.cluster.orchestrator.action_types import Action, Amend, Cancel, Submit
from Daddy.cluster.orchestrator.controller_types import (
    Attempt,
    Chaining,
    JobState,
    Phase,
    WaitReason,
)
from Daddy.cluster.orchestrator.decisions import job_cap
from Daddy.cluster.orchestrator.decisions.plan_input import PlanInput

SLOT_IS_EMPTY = "a slot is empty"
"""Reason of a submission that follows no job."""
_WORTH_S = 900.0
"""Least seconds before a maintenance for which a job is worth its start."""
_MARGIN_S = 120.0


def fill_slots(inputs: PlanInput, excluded: tuple[str, ...]) -> tuple[list[Action], list[str]]:
    """Return submissions of the missing jobs and cancels of surplus ones, with the reasons."""
    if inputs.block is not None:
        return [], [inputs.block.reason]
    chaining, _ = job_cap.choose_chaining(inputs.ledger.site, inputs.policy)
    ahead = _ahead(inputs, chaining)
    fillers = max(0, inputs.fill - len(_ready(inputs)))
    successors = max(0, ahead - _spare(inputs))
    allowance, limit = job_cap.submit_allowance(inputs)
    missing = max(0, fillers + successors - allowance)
    submits = _submits(
        inputs, min(fillers, allowance), max(0, successors - missing), chaining, excluded
    )
    training, waiting = len(inputs.training), len(inputs.waiting)
    reasons = [
        f"{training} of {len(inputs.desired.open_slots)} slots train, {waiting} jobs wait or start"
    ]
    if missing:
        reasons.append(f"{limit}: {missing} jobs fewer than wanted")
    return [*submits, *_shrink(inputs, ahead)], reasons


def _ahead(inputs: PlanInput, chaining: Chaining) -> int:
    """Return the number of successors to keep queued; under a Hold 0, unless they are chained."""
    if not inputs.holds:
        steady = len(inputs.steady)
    elif chaining is Chaining.CHAIN:
        steady = len(_ids_of_unheld(inputs, inputs.steady))
    else:
        return 0
    return job_cap.successor_count(inputs, chaining, steady)


def _spare(inputs: PlanInput) -> int:
    """Return the number of waiting jobs beyond the empty slots; under a Hold, of chained ones."""
    if not inputs.holds:
        return len(inputs.waiting) - min(len(_ready(inputs)), inputs.fill)
    ends = set(_ids_of_unheld(inputs, inputs.steady))
    return sum(1 for attempt in inputs.waiting if attempt.after in ends)


def _submits(
    inputs: PlanInput, fillers: int, successors: int, chaining: Chaining, excluded: tuple[str, ...]
) -> list[Action]:
    """Return submissions for empty slots, then of successors."""
    chosen = inputs.rollout
    empty = Submit(
        SLOT_IS_EMPTY, exclude=excluded, release=chosen.release, request=chosen.trial or ""
    )
    if chaining is not Chaining.CHAIN:
        successor = replace(empty, reason="successor, as slots train")
        return [*[empty] * fillers, *[successor] * successors]
    behind = {attempt.after for attempt in inputs.waiting}
    ends = [end for end in _ids_of_unheld(inputs, inputs.steady) if end not in behind]
    chain = [
        replace(empty, reason=f"successor of job {end}", after=end) for end in ends[:successors]
    ]
    return [*[empty] * fillers, *chain]


def _ids_of_unheld(inputs: PlanInput, training: Iterable[Attempt]) -> list[int]:
    """Return the ids of ``training`` jobs in wanted slots without a Hold.

    None if a Hold covers all empty slots, or any slot has one and no job wrote a checkpoint yet.
    """
    held = {hold.slot for hold in inputs.holds}
    if None in held or (held and all(job.progressed_ts is None for job in inputs.training)):
        return []
    wanted = set(inputs.desired.open_slots) - held
    job_ids = (attempt.job_id for attempt in training if attempt.slot in wanted)
    return [job_id for job_id in job_ids if job_id is not None]


def _ready(inputs: PlanInput) -> Sequence[Attempt]:
    """Return waiting jobs that may take any empty slot: running, or behind no job in a slot."""
    if all(attempt.after is None for attempt in inputs.waiting):
        return inputs.waiting
    present = {attempt.job_id for attempt in inputs.ledger.live if attempt.left_ts is None}
    return [
        attempt
        for attempt in inputs.waiting
        if attempt.phase is Phase.RUNNING or attempt.after is None or attempt.after not in present
    ]


def _shrink(inputs: PlanInput, ahead: int) -> list[Action]:
    """Return cancels of surplus queued jobs, newest first; [] while a Hold exists."""
    if inputs.holds:
        return []
    policy = inputs.policy
    most = inputs.desired.slots + max(ahead, policy.spares + policy.extra)
    surplus = len(inputs.ledger.live) - most
    if surplus <= 0:
        return []
    return [
        Cancel(attempt.token, attempt.job_id, "more jobs wait than may start")
        for attempt in reversed(_queued(inputs)[-surplus:])
        if attempt.job_id is not None and attempt.requests.cancelled_ts is None
    ]


def hold_waiting_jobs(inputs: PlanInput, *, user_jobs: bool) -> list[Action]:
    """Return changes that hold, in Slurm, jobs that must not start now, and release others."""
    waits = _queued(inputs)
    if user_jobs:
        held, reason = waits, "your own job comes first"
    elif inputs.block is not None and inputs.block.holds_waiting:
        held, reason = waits, inputs.block.reason
    elif inputs.holds:
        held, reason = _must_not_start(inputs, waits), inputs.holds[0].reason
    else:
        held, reason = [], ""
    tokens = {attempt.token for attempt in held}
    wanted_holds = ((attempt, attempt.token in tokens) for attempt in waits)
    return [
        Amend(attempt.token, attempt.job_id, reason if hold else "it may start again", hold=hold)
        for attempt, hold in wanted_holds
        if attempt.job_id is not None and attempt.requests.held is not hold
    ]


def _must_not_start(inputs: PlanInput, waits: Sequence[Attempt]) -> list[Attempt]:
    """Return the waiting jobs that would start in a slot that has to stay empty.

    The successor of a training job takes that job's slot. The other jobs share the slots that may
    be filled: first started jobs and unanswered submissions, then jobs not held, then the oldest.
    """
    ready, ends = _ready(inputs), set(_ids_of_unheld(inputs, inputs.training))
    free = inputs.fill - sum(1 for attempt in ready if not attempt.queued)
    queued = sorted((job for job in ready if job.queued), key=lambda job: job.requests.held)
    may = {attempt.token for attempt in queued[: max(0, free)]}
    return [job for job in waits if job.token not in may and job.after not in ends]


def _queued(inputs: PlanInput) -> list[Attempt]:
    return [job for job in inputs.waiting if job.queued and job.job_id is not None]


def shorten_time_limits(inputs: PlanInput) -> list[Action]:
    """Return shorter time limits for jobs whose limit reaches into a maintenance.

    At most as many jobs as slots to fill: a shortened job stays short after the maintenance.
    """
    policy, begins = inputs.policy, inputs.snapshot.maintenance_ts
    if begins is None:
        return []
    left_s = begins - inputs.now - _MARGIN_S
    if left_s < _WORTH_S or left_s >= policy.limit_s:
        return []
    attempts = {attempt.token: attempt for attempt in inputs.ledger.live}
    blocked = [
        job
        for job in inputs.snapshot.jobs
        if job.state is JobState.PENDING
        and job.wait_reason is WaitReason.RESERVATION
        and job.token in attempts
    ]
    limit_s = int(left_s // 60) * 60
    reason = "shortened to end before the maintenance"
    return [
        Amend(job.token, job.job_id, reason, limit_s=limit_s)
        for job in blocked[: inputs.fill]
        if (attempts[job.token].requests.limit_s or policy.limit_s) > left_s
    ]
