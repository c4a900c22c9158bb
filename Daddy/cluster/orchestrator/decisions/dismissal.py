"""Pure: how a run is emptied: queued jobs go, running ones are asked and get their time."""

from __future__ import annotations

from Daddy.cluster.orchestrator.actions import Action, Cancel, Conclude, Signal
from Daddy.cluster.orchestrator.control_parameters import Policy
from Daddy.cluster.orchestrator.records import (
    Attempt,
    Desired,
    JobState,
    Ledger,
    Mode,
    Snapshot,
)


def empty(
    desired: Desired, ledger: Ledger, snapshot: Snapshot, policy: Policy, now: float
) -> tuple[list[Action], list[str]]:
    """What to do with every job that is left, and the end once none is.

    Waiting jobs go first: they would start in the places of those that leave.
    """
    if not ledger.live:
        final = Mode.DONE if desired.mode is Mode.DONE else Mode.STOPPED
        return [Conclude(final, "no job is left")], ["no job is left"]
    running = {job.token for job in snapshot.jobs if job.state is JobState.RUNNING}
    actions: list[Action] = []
    for attempt in sorted(ledger.live, key=lambda one: one.token in running):
        action = _dismiss(attempt, desired, policy, now, running=attempt.token in running)
        if action is not None:
            actions.append(action)
    return actions, [f"{desired.mode.value}: {len(ledger.live)} jobs still have to leave"]


def _dismiss(
    attempt: Attempt, desired: Desired, policy: Policy, now: float, *, running: bool
) -> Action | None:
    if attempt.job_id is None:
        return None
    asked = attempt.requests
    if asked.cancelled_ts is not None and now - asked.cancelled_ts < policy.recancel_s:
        return None
    if not running or desired.mode in (Mode.NOW, Mode.STOPPED):
        return Cancel(attempt.token, attempt.job_id, f"the run is to {desired.mode.value}")
    if asked.signalled_ts is None:
        return Signal(attempt.token, attempt.job_id, f"the run is to {desired.mode.value}")
    if now - asked.signalled_ts >= policy.drain_s:
        return Cancel(attempt.token, attempt.job_id, f"still here {policy.drain_s:g} s after")
    return None
