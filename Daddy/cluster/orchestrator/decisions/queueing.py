"""Pure: what goes into the queue, what is held back there, and what is taken out again."""

from __future__ import annotations

from dataclasses import replace

from Daddy.cluster.orchestrator.actions import Action, Amend, Cancel, Submit
from Daddy.cluster.orchestrator.decisions import capacity
from Daddy.cluster.orchestrator.decisions.view import View
from Daddy.cluster.orchestrator.records import Attempt, Chaining


def fill_up(view: View, avoided: tuple[str, ...]) -> tuple[list[Action], list[str]]:
    """Submit what is missing, in the way that this site allows."""
    if view.stop is not None:
        return [], [view.stop.reason]
    way = capacity.way(view.ledger.site, view.policy)
    training, waiting = len(view.training), len(view.waiting)
    ledger, policy, now, fill = view.ledger, view.policy, view.now, view.fill
    ahead = capacity.ahead(ledger, policy, way.chaining, view.steady, now, fill)
    ahead = 0 if view.holds else ahead  # a successor would start in the place that is held
    count = max(0, fill + ahead - waiting)
    room, limit = capacity.room(ledger, view.snapshot, policy, fill, now)
    wishes = _submits(view, min(count, room), way.chaining, avoided)
    story = [f"{training} of {view.desired.slots} slots train, {waiting} jobs wait or start"]
    if count > room:
        story.append(f"{limit}: {count - room} jobs fewer than wanted")
    return [*wishes, *_shrink(view, ahead)], story


def _submits(view: View, count: int, chaining: Chaining, avoided: tuple[str, ...]) -> list[Action]:
    """Fillers for empty slots first, then successors."""
    chosen = view.rollout
    empty = Submit(
        "a slot is empty", exclude=avoided, release=chosen.release, request=chosen.trial or ""
    )
    fillers = min(count, max(0, view.fill - _free(view, chaining)))
    if chaining not in (Chaining.CHAIN, Chaining.OVERLAP):
        more = replace(empty, reason="successor, as slots train")
        return [*[empty] * fillers, *[more] * (count - fillers)]
    followed = {one.after for one in view.waiting}
    ends = [one.job_id for one in view.training if one.job_id not in followed]
    overlap = chaining is Chaining.OVERLAP
    chain = [
        replace(empty, reason=f"successor of job {end}", after=end, overlap=overlap)
        for end in ends[: count - fillers]
    ]
    return [*[empty] * fillers, *chain]


def _free(view: View, chaining: Chaining) -> int:
    """Waiting jobs that may take any empty slot: those behind nobody who still trains."""
    if chaining in (Chaining.POOL, Chaining.LATE):
        return len(view.waiting)
    running = {one.job_id for one in view.training}
    return sum(1 for one in view.waiting if one.after not in running)


def _shrink(view: View, ahead: int) -> list[Action]:
    """Take back queued jobs that nobody needs: newest first, and never because of a hold."""
    if view.holds:
        return []
    policy = view.policy
    most = view.desired.slots + max(ahead, policy.spares + policy.extra)
    surplus = len(view.ledger.live) - most
    if surplus <= 0:
        return []
    newest = sorted(_queued(view), key=lambda one: -one.number)
    return [
        Cancel(one.token, one.job_id, "more jobs wait than may start")
        for one in newest[:surplus]
        if one.job_id is not None and one.cancelled_ts is None
    ]


def hold_back(view: View, *, guests: bool) -> list[Action]:
    """Hold waiting jobs in their places while they must not start; let go what may, oldest first:
    attempts stand in that order.
    """
    waits = _queued(view)
    if guests:
        free, why = 0, "your own job comes first"
    elif view.stop is not None and view.stop.holds_waiting:
        free, why = 0, view.stop.reason
    elif view.holds:
        free, why = view.fill, view.holds[0].reason
    else:
        free, why = len(waits), "it may start again"
    return [
        Amend(one.token, one.job_id, why, hold=rank >= free)
        for rank, one in enumerate(waits)
        if one.job_id is not None and one.held is not (rank >= free)
    ]


def _queued(view: View) -> list[Attempt]:
    return [one for one in view.waiting if one.queued and one.job_id is not None]
