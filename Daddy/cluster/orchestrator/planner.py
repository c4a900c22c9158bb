"""Pure. Decides the next actions: one total function of the wish, the ledger and the listing.

Level-triggered: nothing depends on having seen an event, so a controller that was away for a day
decides like one that never left. An unknown queue leads to no action at all. Each question has a
module in ``decisions``; here they are put together, and every action carries its reason in words.

Passes are rare while all is well, and close together around a change. Between them the controller
watches small files: a claim or a goodbye wakes it at once, so a pass asks the scheduler only for
news that no file tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import inf

from Daddy.cluster.orchestrator.control_parameters import HOT_FOR_S, SILENCE_S, ControllerPolicy
from Daddy.cluster.orchestrator.controller_records import (
    Attempt,
    Intent,
    JobState,
    Ledger,
    Mode,
    Orders,
    Phase,
    QueueReading,
    Snapshot,
    UnknownQueue,
)
from Daddy.cluster.orchestrator.decisions import (
    draining,
    job_cap,
    job_submission,
    node_exclusion,
    submit_blocks,
)
from Daddy.cluster.orchestrator.decisions.circuit_breaker import FOREVER_S
from Daddy.cluster.orchestrator.decisions.plan_input import PlanInput, gather_plan_input
from Daddy.cluster.orchestrator.plan_actions import Action, EndTerm, Notify, Pause, Plan

_NOTIFY_AGAIN_S = 6 * 3600.0


def plan(
    desired: Intent, ledger: Ledger, snapshot: QueueReading, policy: ControllerPolicy, now: float
) -> Plan:
    """Actions for this moment; ``ledger`` already knows the ``snapshot`` (``reconcile``)."""
    seen = Snapshot(snapshot.begun_ts, ()) if isinstance(snapshot, UnknownQueue) else snapshot
    inputs = gather_plan_input(desired, ledger, seen, policy, now)
    avoided = node_exclusion.excluded_nodes(ledger, now)
    told = partial(Plan, holds=inputs.holds, rollout=inputs.rollout.reason, avoided=avoided)
    if isinstance(snapshot, UnknownQueue):
        reason = f"the queue cannot be read ({snapshot.why}): nothing is changed"
        return told((), (reason,), now + policy.pass_s)
    if desired.mode is Mode.RUN:
        wishes, reasons = _run(inputs, avoided)
        orders = _orders(inputs)
    elif desired.mode is Mode.PAUSED:
        wishes, reasons = [], ["paused: nothing is submitted until you say start"]
        orders = Orders(reason="the run is paused")
    else:
        wishes, reasons = draining.drain_run(inputs)
        orders = Orders(reason=f"the run is to {desired.mode.value}")
    freed = (EndTerm(orphan.slot, orphan.term, orphan.reason) for orphan in ledger.orphans)
    actions = (*freed, *wishes)
    due, wake = _due_at(inputs), now + _pause_s(inputs, busy=bool(actions))
    return told(actions, tuple(reasons), min(wake, due), orders, due)


def _run(inputs: PlanInput, avoided: tuple[str, ...]) -> tuple[list[Action], list[str]]:
    """Keep the slots filled, unless the run is to pause."""
    ledger, policy, now = inputs.ledger, inputs.policy, inputs.now
    why = submit_blocks.find_pause_reason(ledger, inputs.snapshot, policy)
    if why is not None:
        return [Pause(why)], [f"paused: {why}"]
    guests = draining.waiting_user_jobs(inputs.snapshot)
    wishes, story = job_submission.fill_slots(inputs, avoided)
    actions = [
        *draining.end_silent_jobs(inputs),
        *draining.yield_slot(inputs, guests),
        *node_exclusion.exclude_nodes(inputs.waiting, avoided),
        *job_submission.shorten_time_limits(inputs),
        *job_submission.hold_waiting_jobs(inputs, guests=bool(guests)),
        *([] if guests else wishes),
        *_notices(inputs),
    ]
    told = [hold.reason for hold in inputs.holds]
    told += [inputs.rollout.reason] * bool(inputs.rollout.reason)
    return [action for action in actions if _is_news(action, ledger, now)], [*told, *story]


def _orders(inputs: PlanInput) -> Orders:
    """For jobs that start now: the slots that may be had, and the release to run there."""
    kept = {hold.slot for hold in inputs.holds if hold.until > inputs.now}
    if None in kept:
        return Orders(reason="no slot may be filled now")
    free = (slot for slot in range(inputs.desired.slots) if slot not in kept)
    return Orders({slot: inputs.rollout.release_for(slot) for slot in free}, inputs.rollout.reason)


def _notices(inputs: PlanInput) -> Iterator[Notify]:
    """Open breakers, releases that were given up, and a queue that takes nothing more."""
    for hold in inputs.holds:
        if hold.open or hold.until - inputs.now > FOREVER_S / 2:
            yield Notify(f"hold-{hold.slot}", hold.reason)
    if inputs.rollout.given_up:
        yield Notify(f"release-{inputs.desired.release}", inputs.rollout.reason)
    if inputs.block is not None:
        yield Notify("stopped", inputs.block.reason)


def _is_news(action: Action, ledger: Ledger, now: float) -> bool:
    """False for a word that was said within the last hours."""
    if not isinstance(action, Notify):
        return True
    return now - ledger.noticed.get(action.kind, -_NOTIFY_AGAIN_S) >= _NOTIFY_AGAIN_S


def _pause_s(inputs: PlanInput, *, busy: bool) -> float:
    """Seconds until the next pass at the latest."""
    policy, live = inputs.policy, inputs.ledger.live
    recent = bool(live) and inputs.now - live[-1].intended_ts < HOT_FOR_S  # the last one submitted
    moving = busy or len(inputs.training) < len(live)
    if (recent and moving) or _about_to_end(inputs):
        return policy.hot_pass_s
    if inputs.desired.mode is Mode.RUN and inputs.fill == 0 and not busy:
        return max(policy.quiet_pass_s, policy.pass_s)
    return policy.pass_s


def _about_to_end(inputs: PlanInput) -> bool:
    """A running job is near its real end, by the scheduler's own clock."""
    return any(
        job.state is JobState.RUNNING
        and job.ends_ts is not None
        and abs(job.ends_ts - inputs.now) < HOT_FOR_S / 2
        for job in inputs.snapshot.jobs
    )


def _due_at(inputs: PlanInput) -> float:
    """The time at which the decision changes without any news; infinity where it never does."""
    stamps = [hold.until for hold in inputs.holds]
    frees = job_cap.next_submit_time(inputs.ledger, inputs.policy, inputs.now)
    if frees is not None:
        stamps.append(frees)
    for attempt in inputs.ledger.live:
        stamps += _deadlines(attempt, inputs.policy)
    if inputs.fill:
        stamps += job_cap.slow_wait_times(inputs.ledger)
    return min((stamp for stamp in stamps if stamp > inputs.now), default=inf)


def _deadlines(attempt: Attempt, policy: ControllerPolicy) -> Iterator[float]:
    seen, asked = attempt.observed, attempt.requests
    if seen.absences:
        yield seen.absent_ts + policy.absence_gap_s
    if attempt.phase is Phase.INTENT:
        yield seen.answered_ts or attempt.intended_ts + policy.answer_s
    if asked.cancelled_ts is not None:
        yield asked.cancelled_ts + policy.recancel_s
    elif asked.signalled_ts is not None:
        yield asked.signalled_ts + policy.recancel_s
        yield asked.signalled_ts + policy.drain_s
    if attempt.phase is Phase.RUNNING and attempt.slot is None and attempt.started_ts:
        yield attempt.started_ts + SILENCE_S
