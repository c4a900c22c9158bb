"""Pure. Decides which jobs go into the queue, and which are held back, shortened or taken out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from Daddy.cluster.orchestrator.controller_records import (
    Attempt,
    Chaining,
    JobState,
    Phase,
    WaitReason,
)
from Daddy.cluster.orchestrator.decisions import job_cap
from Daddy.cluster.orchestrator.decisions.plan_input import PlanInput
from Daddy.cluster.orchestrator.plan_actions import Action, Amend, Cancel, Submit

_WORTH_S = 900.0
"""Less time before a maintenance than this is not worth a boot."""
_MARGIN_S = 120.0


def fill_slots(inputs: PlanInput, avoided: tuple[str, ...]) -> tuple[list[Action], list[str]]:
    """Submit the missing jobs, with the chaining that this site allows."""
    if inputs.block is not None:
        return [], [inputs.block.reason]
    chaining, _ = job_cap.choose_chaining(inputs.ledger.site, inputs.policy)
    ahead = _ahead(inputs, chaining)
    fillers = max(0, inputs.fill - len(_ready(inputs)))
    successors = max(0, ahead - _spare(inputs))
    room, limit = job_cap.submit_allowance(inputs)
    over = max(0, fillers + successors - room)
    wishes = _submits(inputs, min(fillers, room), max(0, successors - over), chaining, avoided)
    training, waiting = len(inputs.training), len(inputs.waiting)
    story = [f"{training} of {inputs.desired.slots} slots train, {waiting} jobs wait or start"]
    if over:
        story.append(f"{limit}: {over} jobs fewer than wanted")
    return [*wishes, *_shrink(inputs, ahead)], story


def _ahead(inputs: PlanInput, chaining: Chaining) -> int:
    """Successors to have in the queue. While a slot is held, there is to be none that waits for any
    slot, as the next of a pool does: it would start in that place. In line the others have theirs.
    """
    if not inputs.holds:
        steady = len(inputs.steady)
    elif chaining is Chaining.CHAIN:
        steady = len(_free_of_holds(inputs, inputs.steady))
    else:
        return 0
    return job_cap.successor_count(inputs, chaining, steady)


def _spare(inputs: PlanInput) -> int:
    """Successors that wait already: those beyond the empty slots. While a slot is held, only those
    behind a job that `_ahead` counted: any other may be meant for the held slot.
    """
    if not inputs.holds:
        return len(inputs.waiting) - min(len(_ready(inputs)), inputs.fill)
    ends = set(_free_of_holds(inputs, inputs.steady))
    return sum(1 for attempt in inputs.waiting if attempt.after in ends)


def _submits(
    inputs: PlanInput, fillers: int, successors: int, chaining: Chaining, avoided: tuple[str, ...]
) -> list[Action]:
    """Fillers for empty slots first, then successors."""
    chosen = inputs.rollout
    empty = Submit(
        "a slot is empty", exclude=avoided, release=chosen.release, request=chosen.trial or ""
    )
    if chaining is not Chaining.CHAIN:
        more = replace(empty, reason="successor, as slots train")
        return [*[empty] * fillers, *[more] * successors]
    behind = {attempt.after for attempt in inputs.waiting}
    ends = [end for end in _free_of_holds(inputs, inputs.steady) if end not in behind]
    chain = [
        replace(empty, reason=f"successor of job {end}", after=end) for end in ends[:successors]
    ]
    return [*[empty] * fillers, *chain]


def _free_of_holds(inputs: PlanInput, training: Iterable[Attempt]) -> list[int]:
    """Ids of those among `training` that may be followed: no hold is on their slot, nor on all, and
    while any slot is held some job makes progress, lest the next one fails as well.
    """
    kept = {hold.slot for hold in inputs.holds}
    if None in kept or (kept and all(one.progressed_ts is None for one in inputs.training)):
        return []
    wanted = set(range(inputs.desired.slots)) - kept
    here = (attempt.job_id for attempt in training if attempt.slot in wanted)
    return [job_id for job_id in here if job_id is not None]


def _ready(inputs: PlanInput) -> Sequence[Attempt]:
    """The jobs that could come to any empty slot: started ones, and those behind no job that is
    still there, such as all of a pool.
    """
    if all(attempt.after is None for attempt in inputs.waiting):
        return inputs.waiting
    there = {attempt.job_id for attempt in inputs.ledger.live if attempt.left_ts is None}
    return [
        attempt
        for attempt in inputs.waiting
        if attempt.phase is Phase.RUNNING or attempt.after is None or attempt.after not in there
    ]


def _shrink(inputs: PlanInput, ahead: int) -> list[Action]:
    """Take back surplus queued jobs: newest first, and never because of a hold."""
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


def hold_waiting_jobs(inputs: PlanInput, *, guests: bool) -> list[Action]:
    """Hold waiting jobs in their places while they must not start; release the others."""
    waits = _queued(inputs)
    if guests:
        barred, why = waits, "your own job comes first"
    elif inputs.block is not None and inputs.block.holds_waiting:
        barred, why = waits, inputs.block.reason
    elif inputs.holds:
        barred, why = _barred(inputs, waits), inputs.holds[0].reason
    else:
        barred, why = [], ""
    tokens = {attempt.token for attempt in barred}
    wishes = ((attempt, attempt.token in tokens) for attempt in waits)
    return [
        Amend(attempt.token, attempt.job_id, why if hold else "it may start again", hold=hold)
        for attempt, hold in wishes
        if attempt.job_id is not None and attempt.requests.held is not hold
    ]


def _barred(inputs: PlanInput, waits: Sequence[Attempt]) -> list[Attempt]:
    """Waiting jobs that would start in a place which is to stay empty.

    A job behind one that trains takes its place. The others share the slots that may be filled:
    first those that run already or may exist, then those not held so far, then the oldest
    (attempts stand in the order intended).
    """
    ready, ends = _ready(inputs), set(_free_of_holds(inputs, inputs.training))
    free = inputs.fill - sum(1 for attempt in ready if not attempt.queued)
    queued = sorted((one for one in ready if one.queued), key=lambda one: one.requests.held)
    may = {attempt.token for attempt in queued[: max(0, free)]}
    return [one for one in waits if one.token not in may and one.after not in ends]


def _queued(inputs: PlanInput) -> list[Attempt]:
    return [one for one in inputs.waiting if one.queued and one.job_id is not None]


def shorten_time_limits(inputs: PlanInput) -> list[Action]:
    """Shorter limits for jobs whose limit reaches into a maintenance.

    Such a job keeps its age and starts at once. Only as many as there are slots to fill: the limit
    stays short, and the others are to have their whole time once the maintenance is over.
    """
    policy, begins = inputs.policy, inputs.snapshot.maintenance_ts
    if begins is None:
        return []
    left = begins - inputs.now - _MARGIN_S
    if left < _WORTH_S or left >= policy.limit_s:
        return []
    known = {attempt.token: attempt for attempt in inputs.ledger.live}
    blocked = [
        job
        for job in inputs.snapshot.jobs
        if job.state is JobState.PENDING
        and job.waits is WaitReason.RESERVATION
        and job.token in known
    ]
    minutes = int(left // 60) * 60
    said = "shortened to end before the maintenance"
    return [
        Amend(job.token, job.job_id, said, limit_s=minutes)
        for job in blocked[: inputs.fill]
        if (known[job.token].requests.limit_s or policy.limit_s) > left
    ]
