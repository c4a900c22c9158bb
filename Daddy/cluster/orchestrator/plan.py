"""Pure: what to do now. One total function of what is wanted, what is known and what was seen.

Level-triggered: nothing depends on having seen an event, so a controller that was away for a day
decides like one that never left. An unknown queue leads to no action at all. Each question has a
module in ``decisions``; here they are put together, and every action carries its reason in words.
"""

from __future__ import annotations

from Daddy.cluster.orchestrator.actions import Action, EndTerm, Orders, Pause, Plan
from Daddy.cluster.orchestrator.control_parameters import Policy
from Daddy.cluster.orchestrator.decisions import (
    dismissal,
    hangs,
    maintenance,
    nodes,
    notices,
    pauses,
    queueing,
    waking,
    yielding,
)
from Daddy.cluster.orchestrator.decisions.view import View, look
from Daddy.cluster.orchestrator.records import Desired, Ledger, Mode, Observation, Unknown


def plan(
    desired: Desired, ledger: Ledger, snapshot: Observation, policy: Policy, now: float
) -> Plan:
    """Actions for this moment; ``ledger`` already knows what ``snapshot`` shows (``reconcile``)."""
    if isinstance(snapshot, Unknown):
        reason = f"the queue cannot be read ({snapshot.why}): nothing is changed"
        return Plan((), (reason,), now + (_slow(policy) if snapshot.slow_down else policy.pass_s))
    view = look(desired, ledger, snapshot, policy, now)
    if desired.mode is Mode.RUN:
        wishes, reasons = _run(view)
        orders = _orders(view)
    elif desired.mode is Mode.PAUSED:
        wishes, reasons = [], ["paused: nothing is submitted until you say start"]
        orders = Orders(reason="the run is paused")
    else:
        wishes, reasons = dismissal.empty(desired, ledger, snapshot, policy, now)
        orders = Orders(reason=f"the run is to {desired.mode.value}")
    actions = (*_freed(ledger), *wishes)
    due = waking.due_at(view)
    wake = waking.wake_at(view, busy=bool(actions))
    if snapshot.slow_down:
        wake = max(wake, now + _slow(policy))
    return Plan(actions, tuple(reasons), min(wake, due), orders, due)


def _slow(policy: Policy) -> float:
    """Seconds between passes while the scheduler asks to be asked less often."""
    return max(policy.quiet_pass_s, policy.pass_s)


def _freed(ledger: Ledger) -> tuple[Action, ...]:
    """Slots whose holder is proven gone."""
    return tuple(EndTerm(one.slot, one.term, one.reason) for one in ledger.orphans)


def _run(view: View) -> tuple[list[Action], list[str]]:
    """Keep the slots filled, unless somebody above us said stop."""
    ledger, policy, now = view.ledger, view.policy, view.now
    why = pauses.find(ledger, view.snapshot, policy)
    if why is not None:
        return [Pause(why)], [f"paused: {why}"]
    guests = yielding.guests(view.snapshot)
    avoided = nodes.excluded(ledger, now)
    wishes, story = queueing.fill_up(view, avoided)
    actions = [
        *hangs.end_silent(ledger, view.snapshot, policy, now),
        *yielding.make_room(ledger, guests, view.desired.slots),
        *nodes.keep_away(view.waiting, avoided),
        *maintenance.shorten(ledger, view.snapshot, policy, view.fill, now),
        *queueing.hold_back(view, guests=bool(guests)),
        *([] if guests else wishes),
        *notices.notices(view),
    ]
    told = [hold.reason for hold in view.holds] + [view.rollout.reason] * bool(view.rollout.reason)
    return [one for one in actions if notices.is_news(one, ledger, now)], [*told, *story]


def _orders(view: View) -> Orders:
    """For whoever starts now: the slots that may be had, and what to run there."""
    kept = {one.slot for one in view.holds if one.until > view.now}
    if None in kept:
        return Orders(reason="no slot may be filled now")
    free = (slot for slot in range(view.desired.slots) if slot not in kept)
    return Orders({slot: view.rollout.at(slot) for slot in free}, view.rollout.reason)
