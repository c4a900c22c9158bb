"""Pure. Chooses the controller's next actions from the intent, the ledger and the queue listing.

The plan depends on the present state only, never on having seen an event: a controller that was
down for a day plans like one that ran all the time. An unreadable queue leads to no action. Each
decision has a module in ``decisions``; every action carries its reason in words.

Passes are rare while nothing changes. Between passes the controller watches small files; a claim
or the end of a term starts a pass at once: scheduled passes find changes that no file shows.
"""

from collections.abc import Iterator
from functools import partial
from math import inf

from Daddy.cluster.orchestrator.action_types import Action, EndTerm, Notify, Pause, Plan
from Daddy.cluster.orchestrator.control_parameters import HOT_FOR_S, SILENCE_S, ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import (
    Attempt,
    DesiredRun,
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
    job_cap,
    job_ending,
    job_submission,
    node_exclusion,
    run_pauses,
)
from Daddy.cluster.orchestrator.decisions.circuit_breaker import FOREVER_S
from Daddy.cluster.orchestrator.decisions.plan_input import PlanInput, gather_plan_input

_NOTIFY_AGAIN_S = 6 * 3600.0


def plan(
    desired: DesiredRun, ledger: Ledger, reading: QueueReading, policy: ControllerPolicy, now: float
) -> Plan:
    """Return the plan at ``now`` (wall seconds); ``ledger`` already contains ``reading``."""
    policy = job_cap.limit_to_open_slots(policy, desired)
    listing = Snapshot(reading.begun_ts, ()) if isinstance(reading, UnknownQueue) else reading
    inputs = gather_plan_input(desired, ledger, listing, policy, now)
    excluded = node_exclusion.excluded_nodes(ledger, now)
    make_plan = partial(Plan, holds=inputs.holds, rollout=inputs.rollout.reason, avoided=excluded)
    if isinstance(reading, UnknownQueue):
        reason = f"the queue cannot be read ({reading.error}): nothing is changed"
        return make_plan((), (reason,), now + policy.pass_s)
    if desired.mode is Mode.RUN:
        chosen, reasons = _run(inputs, excluded)
        orders = _orders(inputs)
    elif desired.mode is Mode.PAUSED:
        chosen, reasons = [], ["paused: nothing is submitted until you type start"]
        orders = Orders(reason="the run is paused")
    else:
        chosen, reasons = job_ending.drain_run(inputs)
        orders = Orders(reason=f"the run's mode is {desired.mode.value!r}")
    freed_slots = (EndTerm(orphan.slot, orphan.term, orphan.reason) for orphan in ledger.orphans)
    actions = (*freed_slots, *chosen)
    due, wake = _next_change_ts(inputs), now + _next_pass_s(inputs, busy=bool(actions))
    return make_plan(actions, tuple(reasons), min(wake, due), orders, due)


def _run(inputs: PlanInput, excluded: tuple[str, ...]) -> tuple[list[Action], list[str]]:
    """Return the actions that keep the slots filled, or a Pause; and the reasons."""
    ledger, policy, now = inputs.ledger, inputs.policy, inputs.now
    pause_reason = run_pauses.find_pause_reason(ledger, inputs.snapshot, policy)
    if pause_reason is not None:
        return [Pause(pause_reason)], [f"paused: {pause_reason}"]
    user_jobs = job_ending.waiting_user_jobs(inputs.snapshot)
    submits, submit_reasons = job_submission.fill_slots(inputs, excluded)
    actions = [
        *job_ending.end_silent_jobs(inputs),
        *job_ending.end_stopped_slots(inputs),
        *job_ending.yield_slot(inputs, user_jobs),
        *node_exclusion.exclude_nodes(inputs.waiting, excluded),
        *job_submission.shorten_time_limits(inputs),
        *job_submission.hold_waiting_jobs(inputs, user_jobs=bool(user_jobs)),
        *([] if user_jobs else submits),
        *_notifications(inputs),
    ]
    reasons = [hold.reason for hold in inputs.holds]
    reasons += [inputs.rollout.reason] * bool(inputs.rollout.reason)
    due = [action for action in actions if _is_due(action, ledger, now)]
    return due, [*reasons, *submit_reasons]


def _orders(inputs: PlanInput) -> Orders:
    """Return, for jobs that start now, the slots that they may claim and each slot's release."""
    held_slots = {hold.slot for hold in inputs.holds if hold.until > inputs.now}
    if None in held_slots:
        return Orders(reason="no slot may be filled now")
    free_slots = (slot for slot in inputs.desired.open_slots if slot not in held_slots)
    releases = {slot: inputs.rollout.release_for(slot) for slot in free_slots}
    return Orders(releases, inputs.rollout.reason)


def _notifications(inputs: PlanInput) -> Iterator[Notify]:
    """Yield notifications of open breakers, abandoned releases and blocked submissions."""
    for hold in inputs.holds:
        if hold.open or hold.until - inputs.now > FOREVER_S / 2:
            yield Notify(f"hold-{hold.slot}", hold.reason)
    if inputs.rollout.given_up:
        yield Notify(f"release-{inputs.desired.release}", inputs.rollout.reason)
    if inputs.block is not None:
        yield Notify("stopped", inputs.block.reason)


def _is_due(action: Action, ledger: Ledger, now: float) -> bool:
    """Return False for a notification of a kind that the person got in the last six hours."""
    if not isinstance(action, Notify):
        return True
    return now - ledger.noticed.get(action.kind, -_NOTIFY_AGAIN_S) >= _NOTIFY_AGAIN_S


def _next_pass_s(inputs: PlanInput, *, busy: bool) -> float:
    """Return the seconds until the next pass at the latest."""
    policy, attempts = inputs.policy, inputs.ledger.live
    recent = bool(attempts) and inputs.now - attempts[-1].intended_ts < HOT_FOR_S
    moving = busy or len(inputs.training) < len(attempts)
    if (recent and moving) or _job_ends_soon(inputs):
        return policy.hot_pass_s
    if inputs.desired.mode is Mode.RUN and inputs.fill == 0 and not busy:
        return max(policy.quiet_pass_s, policy.pass_s)
    return policy.pass_s


def _job_ends_soon(inputs: PlanInput) -> bool:
    """Return True if a running job is within a minute of the end that the scheduler lists."""
    return any(
        job.state is JobState.RUNNING
        and job.ends_ts is not None
        and abs(job.ends_ts - inputs.now) < HOT_FOR_S / 2
        for job in inputs.snapshot.jobs
    )


def _next_change_ts(inputs: PlanInput) -> float:
    """Return the time when the plan changes although no file or job does, or infinity."""
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
    observed, requests = attempt.observed, attempt.requests
    if observed.absences:
        yield observed.absent_ts + policy.absence_gap_s
    if attempt.phase is Phase.INTENT:
        yield observed.answered_ts or attempt.intended_ts + policy.answer_s
    if requests.cancelled_ts is not None:
        yield requests.cancelled_ts + policy.recancel_s
    elif requests.signalled_ts is not None:
        yield requests.signalled_ts + policy.recancel_s
        yield requests.signalled_ts + policy.drain_s
    if attempt.phase is Phase.RUNNING and attempt.slot is None and attempt.started_ts:
        yield attempt.started_ts + SILENCE_S
