"""Pure: what to do now. One total function of what is wanted, what is known and what was seen.

Level-triggered: nothing depends on having seen an event, so a controller that was away for a day
decides like one that never left. An unknown queue leads to no action at all. Every action carries
its reason in words.
"""

from __future__ import annotations

from collections.abc import Sequence

from Daddy.cluster.orchestrator.breaker import Hold, holds
from Daddy.cluster.orchestrator.records import (
    Action,
    Attempt,
    Cancel,
    Chaining,
    Conclude,
    Desired,
    EndTerm,
    JobState,
    Ledger,
    Mode,
    Observation,
    Phase,
    Plan,
    Policy,
    Signal,
    Snapshot,
    Submit,
    Unknown,
)


def plan(
    desired: Desired, ledger: Ledger, snapshot: Observation, policy: Policy, now: float
) -> Plan:
    """Actions for this moment; ``ledger`` already knows what ``snapshot`` shows (``reconcile``)."""
    if isinstance(snapshot, Unknown):
        reason = f"the queue cannot be read ({snapshot.why}): nothing is changed"
        return Plan((), (reason,), now + policy.pass_s)
    freed = _end_terms(ledger)
    if desired.mode is Mode.RUN:
        wishes, reasons = _fill(desired, ledger, policy, now)
    else:
        wishes, reasons = _empty(desired, ledger, snapshot, policy, now)
    actions = (*freed, *wishes)
    return Plan(actions, tuple(reasons), _wake(actions, ledger, policy, now))


def _end_terms(ledger: Ledger) -> list[Action]:
    return [EndTerm(orphan.slot, orphan.term, orphan.reason) for orphan in ledger.orphans]


def _fill(
    desired: Desired, ledger: Ledger, policy: Policy, now: float
) -> tuple[list[Action], list[str]]:
    training = [attempt for attempt in ledger.live if attempt.training]
    waiting = [attempt for attempt in ledger.live if attempt.slot is None]
    held = holds(ledger, policy, now)
    reasons = [hold.reason for hold in held] or [_story(training, waiting, desired.slots)]
    fill = max(0, desired.slots - len(training) - _blocked(held, training, desired.slots))
    ahead = 0 if held else _ahead(ledger, policy, len(training))
    room = desired.slots + policy.spares - len(ledger.live)
    surplus = len(waiting) - fill if held else -room
    if surplus > 0:
        return _shrink(waiting, surplus), reasons
    count = max(0, min(fill + ahead - len(waiting), room))
    submits = _submits(count, training, waiting, ledger.chaining or policy.chaining, fill)
    return list(submits), reasons


def _blocked(held: Sequence[Hold], training: Sequence[Attempt], slots: int) -> int:
    """Slots that must not be filled now: all of them when attempts die before they claim one."""
    if any(hold.slot is None for hold in held):
        return slots
    taken = {attempt.slot for attempt in training}
    return sum(1 for hold in held if hold.slot not in taken)


def _ahead(ledger: Ledger, policy: Policy, training: int) -> int:
    """Successors to keep in the queue: one for every job that trains.

    None while a slot is held after failures: a waiting successor would fill just that one.
    """
    if (ledger.chaining or policy.chaining) is Chaining.LATE:
        return 0
    return min(training, policy.spares)


def _submits(
    count: int,
    training: Sequence[Attempt],
    waiting: Sequence[Attempt],
    chaining: Chaining,
    fill: int,
) -> list[Submit]:
    fillers = min(count, max(0, fill - sum(1 for attempt in waiting if attempt.after is None)))
    if chaining is Chaining.POOL:
        fillers = min(count, max(0, fill - len(waiting)))
    wishes = [Submit("a slot is empty")] * fillers
    followed = {attempt.after for attempt in waiting}
    unfollowed = [one.job_id for one in training if one.job_id not in followed]
    for job_id in unfollowed[: count - fillers]:
        after = job_id if chaining is Chaining.CHAIN else None
        said = f"successor of job {job_id}" if after is not None else "successor, as slots train"
        wishes.append(Submit(said, after))
    return wishes


def _shrink(waiting: Sequence[Attempt], surplus: int) -> list[Action]:
    """Take back queued jobs, newest first; running ones settle it themselves at their claim."""
    queued = [one for one in waiting if one.phase is Phase.SUBMITTED and one.job_id is not None]
    return [
        Cancel(one.token, one.job_id, "more jobs wait than may start")
        for one in sorted(queued, key=lambda one: -one.number)[:surplus]
        if one.job_id is not None and one.cancelled_ts is None
    ]


def _story(training: Sequence[Attempt], waiting: Sequence[Attempt], slots: int) -> str:
    return f"{len(training)} of {slots} slots train, {len(waiting)} jobs wait or start"


def _empty(
    desired: Desired, ledger: Ledger, snapshot: Snapshot, policy: Policy, now: float
) -> tuple[list[Action], list[str]]:
    """Drain: queued jobs go, running ones are asked to leave and get their time."""
    if not ledger.live:
        final = Mode.DONE if desired.mode is Mode.DONE else Mode.STOPPED
        return [Conclude(final, "no job is left")], ["no job is left"]
    running = {job.token for job in snapshot.jobs if job.state is JobState.RUNNING}
    actions: list[Action] = []
    for attempt in ledger.live:
        action = _dismiss(attempt, desired, policy, now, running=attempt.token in running)
        if action is not None:
            actions.append(action)
    return actions, [f"{desired.mode.value}: {len(ledger.live)} jobs still have to leave"]


def _dismiss(
    attempt: Attempt, desired: Desired, policy: Policy, now: float, *, running: bool
) -> Action | None:
    if attempt.job_id is None:
        return None
    if attempt.cancelled_ts is not None and now - attempt.cancelled_ts < policy.recancel_s:
        return None
    if not running or desired.mode in (Mode.NOW, Mode.STOPPED):
        return Cancel(attempt.token, attempt.job_id, f"the run is to {desired.mode.value}")
    if attempt.signalled_ts is None:
        return Signal(attempt.token, attempt.job_id, f"the run is to {desired.mode.value}")
    if now - attempt.signalled_ts >= policy.drain_s:
        return Cancel(attempt.token, attempt.job_id, f"still here {policy.drain_s:g} s after")
    return None


def _wake(actions: Sequence[Action], ledger: Ledger, policy: Policy, now: float) -> float:
    """Soon while something changes, late while all is quiet, and whenever a hold ends."""
    moving = actions or any(not one.training for one in ledger.live)
    recent = any(now - one.intended_ts < policy.hot_for_s for one in ledger.attempts)
    soon = now + (policy.hot_pass_s if moving and recent else policy.pass_s)
    due = [hold.until for hold in holds(ledger, policy, now)]
    return min([soon, *(until for until in due if until > now)])
