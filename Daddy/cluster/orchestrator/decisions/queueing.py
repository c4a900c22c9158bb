"""Pure: what goes into the queue, what is held back there, and what is taken out again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from Daddy.cluster.orchestrator.actions import Action, Amend, Cancel, Submit
from Daddy.cluster.orchestrator.decisions import capacity
from Daddy.cluster.orchestrator.decisions.view import View
from Daddy.cluster.orchestrator.records import Attempt, Chaining, Phase

_IN_LINE = (Chaining.CHAIN, Chaining.OVERLAP)
"""Ways in which each successor waits behind a predecessor."""


def fill_up(view: View, avoided: tuple[str, ...]) -> tuple[list[Action], list[str]]:
    """Submit what is missing, in the way that this site allows."""
    if view.stop is not None:
        return [], [view.stop.reason]
    chaining = capacity.way(view.ledger.site, view.policy).chaining
    ahead = _ahead(view, chaining)
    fillers = max(0, view.fill - len(_ready(view)))
    successors = max(0, ahead - _spare(view))
    room, limit = capacity.room(view.ledger, view.snapshot, view.policy, view.fill, view.now)
    over = max(0, fillers + successors - room)
    wishes = _submits(view, min(fillers, room), max(0, successors - over), chaining, avoided)
    training, waiting = len(view.training), len(view.waiting)
    story = [f"{training} of {view.desired.slots} slots train, {waiting} jobs wait or start"]
    if over:
        story.append(f"{limit}: {over} jobs fewer than wanted")
    return [*wishes, *_shrink(view, ahead)], story


def _ahead(view: View, chaining: Chaining) -> int:
    """Successors to have in the queue. While a slot is held, there is to be none that waits for any
    slot, as the next of a pool does: it would start in that place. In line the others have theirs.
    """
    if not view.holds:
        steady = len(view.steady)
    elif chaining in _IN_LINE:
        steady = len(_free_of_holds(view, view.steady))
    else:
        return 0
    return capacity.ahead(view.ledger, view.policy, chaining, steady, view.now, view.fill)


def _spare(view: View) -> int:
    """Successors that wait already: those beyond the empty slots. While a slot is held, only those
    behind a job that `_ahead` counted: whatever else waits may be meant for the held slot.
    """
    if not view.holds:
        return len(view.waiting) - min(len(_ready(view)), view.fill)
    ends = set(_free_of_holds(view, view.steady))
    return sum(1 for one in view.waiting if one.after in ends)


def _submits(
    view: View, fillers: int, successors: int, chaining: Chaining, avoided: tuple[str, ...]
) -> list[Action]:
    """Fillers for empty slots first, then successors."""
    chosen = view.rollout
    empty = Submit(
        "a slot is empty", exclude=avoided, release=chosen.release, request=chosen.trial or ""
    )
    if chaining not in _IN_LINE:
        more = replace(empty, reason="successor, as slots train")
        return [*[empty] * fillers, *[more] * successors]
    behind, overlap = {one.after for one in view.waiting}, chaining is Chaining.OVERLAP
    ends = [end for end in _free_of_holds(view, view.steady) if end not in behind]
    chain = [
        replace(empty, reason=f"successor of job {end}", after=end, overlap=overlap)
        for end in ends[:successors]
    ]
    return [*[empty] * fillers, *chain]


def _free_of_holds(view: View, training: Iterable[Attempt]) -> list[int]:
    """Ids of those among `training` that may be followed: no hold is on their slot, nor on all, and
    while any slot is held somebody gets somewhere, lest whoever comes next fails as well.
    """
    kept = {one.slot for one in view.holds}
    if None in kept or (kept and all(one.progressed_ts is None for one in view.training)):
        return []
    wanted = set(range(view.desired.slots)) - kept
    here = (one.job_id for one in training if one.slot in wanted)
    return [job_id for job_id in here if job_id is not None]


def _ready(view: View) -> Sequence[Attempt]:
    """Who could come to any empty slot: jobs that have started, and those behind nobody who is
    still there, such as all of a pool.
    """
    if all(one.after is None for one in view.waiting):
        return view.waiting
    there = {one.job_id for one in view.ledger.live if one.left_ts is None}
    return [
        one
        for one in view.waiting
        if one.phase is Phase.RUNNING or one.after is None or one.after not in there
    ]


def _shrink(view: View, ahead: int) -> list[Action]:
    """Take back queued jobs that nobody needs: newest first, and never because of a hold."""
    if view.holds:
        return []
    policy = view.policy
    most = view.desired.slots + max(ahead, policy.spares + policy.extra)
    surplus = len(view.ledger.live) - most
    if surplus <= 0:
        return []
    newest = reversed(_queued(view)[-surplus:])
    return [
        Cancel(one.token, one.job_id, "more jobs wait than may start")
        for one in newest
        if one.job_id is not None and one.requests.cancelled_ts is None
    ]


def hold_back(view: View, *, guests: bool) -> list[Action]:
    """Hold waiting jobs in their places while they must not start; let go what may."""
    waits = _queued(view)
    if guests:
        barred, why = waits, "your own job comes first"
    elif view.stop is not None and view.stop.holds_waiting:
        barred, why = waits, view.stop.reason
    elif view.holds:
        barred, why = _barred(view, waits), view.holds[0].reason
    else:
        barred, why = [], ""
    tokens = {one.token for one in barred}
    wishes = ((one, one.token in tokens) for one in waits)
    return [
        Amend(one.token, one.job_id, why if hold else "it may start again", hold=hold)
        for one, hold in wishes
        if one.job_id is not None and one.requests.held is not hold
    ]


def _barred(view: View, waits: Sequence[Attempt]) -> list[Attempt]:
    """Waiting jobs that would start in a place which is to stay empty.

    Whoever is behind a job that trains takes its place. The others share the slots that may be
    filled: first those that run already or may exist, then those not held so far, then the oldest
    (attempts stand in the order intended).
    """
    ready, ends = _ready(view), set(_free_of_holds(view, view.training))
    free = view.fill - sum(1 for one in ready if not one.queued)
    queued = sorted((one for one in ready if one.queued), key=lambda one: one.requests.held)
    may = {one.token for one in queued[: max(0, free)]}
    return [one for one in waits if one.token not in may and one.after not in ends]


def _queued(view: View) -> list[Attempt]:
    return [one for one in view.waiting if one.queued and one.job_id is not None]
