"""Pure. Decides which running jobs are asked to leave (a signal), and which are ended (a cancel).

A run that is to end is drained: queued jobs go first, running ones are asked and get their time. A
job without a sign of life is asked, and ended when it stays; silence is measured on the
controller's own clock (``SlotView.silent_s``). One slot makes room when the person's own other job
waits for the same cap; jobs of another run of ours get none, or two runs would never train.
"""

from __future__ import annotations

from collections.abc import Sequence

from Daddy.cluster.orchestrator.actions import Action, Cancel, Conclude, Notify, Signal
from Daddy.cluster.orchestrator.control_parameters import SILENCE_S, Policy
from Daddy.cluster.orchestrator.decisions.plan_input import PlanInput
from Daddy.cluster.orchestrator.records import (
    Attempt,
    JobState,
    Mode,
    Phase,
    QueueJob,
    Snapshot,
    Waits,
)

_STALL_S = 1800.0
"""Seconds of beats without a checkpoint that are worth a word to the person."""
_NOT_YET = ("SUSPENDED", "CONFIGURING")
"""Words for a job whose program may not run: suspended, or its node boots for it."""


def drain(inputs: PlanInput) -> tuple[list[Action], list[str]]:
    """Actions for every job that is left, and the end once none is.

    Waiting jobs go first: they would start in the places of those that leave.
    """
    mode, live = inputs.desired.mode, inputs.ledger.live
    if not live:
        final = Mode.DONE if mode is Mode.DONE else Mode.STOPPED
        return [Conclude(final, "no job is left")], ["no job is left"]
    running = {job.token for job in inputs.snapshot.jobs if job.state is JobState.RUNNING}
    wishes = (
        _dismiss(attempt, inputs, running=attempt.token in running)
        for attempt in sorted(live, key=lambda attempt: attempt.token in running)
    )
    actions = [action for action in wishes if action is not None]
    return actions, [f"{mode.value}: {len(live)} jobs still have to leave"]


def _dismiss(attempt: Attempt, inputs: PlanInput, *, running: bool) -> Action | None:
    policy, now, mode = inputs.policy, inputs.now, inputs.desired.mode
    if attempt.job_id is None or not _may_cancel(attempt, policy, now):
        return None
    if not running or mode in (Mode.NOW, Mode.STOPPED):
        return Cancel(attempt.token, attempt.job_id, f"the run is to {mode.value}")
    signalled = attempt.requests.signalled_ts
    if signalled is None:
        return Signal(attempt.token, attempt.job_id, f"the run is to {mode.value}")
    if now - signalled >= policy.drain_s:
        return Cancel(attempt.token, attempt.job_id, f"still here {policy.drain_s:g} s after")
    return None


def _may_cancel(attempt: Attempt, policy: Policy, now: float) -> bool:
    """Whether no cancel was sent, or the last one came to nothing."""
    cancelled = attempt.requests.cancelled_ts
    return cancelled is None or now - cancelled >= policy.recancel_s


def end_silent(inputs: PlanInput) -> list[Action]:
    """Signals and cancels for jobs that hang, a word about those without progress."""
    found = ((one, _treat(one, inputs.policy, inputs.now)) for one in inputs.ledger.live)
    told = [(attempt, action) for attempt, action in found if action is not None]
    if not told:
        return []
    excused = {job.token for job in inputs.snapshot.jobs if job.word.startswith(_NOT_YET)}
    return [
        action
        for attempt, action in told
        if attempt.slot is not None or attempt.token not in excused
    ]


def _treat(attempt: Attempt, policy: Policy, now: float) -> Action | None:
    job_id, claimed = attempt.job_id, attempt.claimed_ts
    if job_id is None or attempt.phase is not Phase.RUNNING:
        return None
    if attempt.slot is None:
        return _unclaimed(attempt, job_id, policy, now)
    if attempt.observed.silent_ts is not None:
        return _silent(attempt, job_id, policy, now)
    if attempt.training and attempt.progressed_ts is None and claimed is not None:
        waited_s = now - claimed
        if waited_s >= _STALL_S:
            said = f"slot {attempt.slot} trains for {waited_s / 60:.0f} min without a checkpoint"
            return Notify(f"stall-{attempt.token}", said)
    return None


def _unclaimed(attempt: Attempt, job_id: int, policy: Policy, now: float) -> Action | None:
    """End a job that runs and neither takes a slot nor leaves."""
    since = attempt.started_ts
    if since is None or now - since < SILENCE_S or not _may_cancel(attempt, policy, now):
        return None
    return Cancel(attempt.token, job_id, f"no slot was claimed within {SILENCE_S:g} s")


def _silent(attempt: Attempt, job_id: int, policy: Policy, now: float) -> Action | None:
    said = f"no sign of life for more than {SILENCE_S:g} s"
    signalled = attempt.requests.signalled_ts
    if signalled is None:
        return Signal(attempt.token, job_id, said)
    if now - signalled >= policy.recancel_s and _may_cancel(attempt, policy, now):
        return Cancel(attempt.token, job_id, said)
    return None


def guests(snapshot: Snapshot) -> tuple[QueueJob, ...]:
    """The person's own other jobs that wait for a running place."""
    return tuple(
        job
        for job in snapshot.others
        if not job.run_id and job.state is JobState.PENDING and job.waits is Waits.CAP
    )


def make_room(inputs: PlanInput, waiting: Sequence[QueueJob]) -> list[Action]:
    """Ask one slot to leave, unless one is leaving or empty already."""
    live = inputs.ledger.live
    training = [attempt for attempt in live if attempt.training]
    leaving = any(one.left_ts is not None or one.requests.signalled_ts for one in live)
    if not waiting or leaving or len(training) < inputs.desired.slots:
        return []
    oldest = max(training, key=lambda one: (-(one.started_ts or 0.0), one.number))
    if oldest.job_id is None:
        return []
    said = f"your job {waiting[0].job_id} waits for a place: it comes first"
    return [Signal(oldest.token, oldest.job_id, said)]
