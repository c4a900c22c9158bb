"""Pure: what goes into the queue, what is held back there, and what is taken out again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from Daddy.cluster.orchestrator.actions import Action, Amend, Cancel, Submit
from Daddy.cluster.orchestrator.decisions import capacity
from Daddy.cluster.orchestrator.decisions.view import View
from Daddy.cluster.orchestrator.records import Attempt, Chaining

_IN_LINE = (Chaining.CHAIN, Chaining.OVERLAP)
"""Ways in which each successor waits behind a predecessor."""


def fill_up(view: View, avoided: tuple[str, ...]) -> tuple[list[Action], list[str]]:
    """Submit what is missing, in the way that this site allows."""
    if view.stop is not None:
        return [], [view.stop.reason]
    chaining = capacity.way(view.ledger.site, view.policy).chaining
    training, waiting = len(view.training), len(view.waiting)
    fill, ahead = view.fill, _ahead(view, chaining)
    fillers = max(0, fill - len(_ready(view)))
    successors = max(0, fill + ahead - waiting - fillers)
    room, limit = capacity.room(view.ledger, view.snapshot, view.policy, fill, view.now)
    over = max(0, fillers + successors - room)
    wishes = _submits(view, min(fillers, room), max(0, successors - over), chaining, avoided)
    story = [f"{training} of {view.desired.slots} slots train, {waiting} jobs wait or start"]
    if over:
        story.append(f"{limit}: {over} jobs fewer than wanted")
    return [*wishes, *_shrink(view, ahead)], story


def _ahead(view: View, chaining: Chaining) -> int:
    """Successors to have in the queue. While something is held, one of a pool would start in the
    place that is to stay empty; one behind a job that trains takes that one's.
    """
    ledger, policy = view.ledger, view.policy
    wanted = capacity.ahead(ledger, policy, chaining, view.steady, view.now, view.fill)
    if not view.holds:
        return wanted
    return min(wanted, len(_followed(view))) if chaining in _IN_LINE else 0


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
    behind = {one.after for one in view.waiting}
    overlap = chaining is Chaining.OVERLAP
    chain = [
        replace(empty, reason=f"successor of job {end}", after=end, overlap=overlap)
        for end in _followed(view)
        if end not in behind
    ]
    return [*[empty] * fillers, *chain[:successors]]


def _followed(view: View) -> list[int]:
    """Jobs that train where somebody may come after them: no hold keeps their place or all."""
    kept = {one.slot for one in view.holds}
    if None in kept:
        return []
    here = (one for one in view.training if one.slot not in kept)
    return [one.job_id for one in here if one.job_id is not None]


def _ready(view: View) -> list[Attempt]:
    """Waiting jobs that may take any empty slot: those behind nobody who still trains."""
    running = {one.job_id for one in view.training}
    return [one for one in view.waiting if one.after is None or one.after not in running]


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
        if one.job_id is not None and one.cancelled_ts is None
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
    return [
        Amend(one.token, one.job_id, why if hold else "it may start again", hold=hold)
        for one in waits
        if one.job_id is not None and one.held is not (hold := one.token in tokens)
    ]


def _barred(view: View, waits: Sequence[Attempt]) -> list[Attempt]:
    """Waiting jobs that would start in a place which is to stay empty.

    Who is behind a job that trains takes its place. The others share the slots that may be filled,
    oldest first (attempts stand in the order intended), after whoever is on the way there already.
    """
    followed, coming = set(_followed(view)), sum(1 for one in view.waiting if not one.queued)
    ready = [one for one in _ready(view) if one.queued]
    may = {one.token for one in ready[: max(0, view.fill - coming)]}
    return [one for one in waits if one.token not in may and one.after not in followed]


def _queued(view: View) -> list[Attempt]:
    return [one for one in view.waiting if one.queued and one.job_id is not None]
