"""Pure. Decides which running jobs are asked to leave (a signal), and which are ended (a cancel).

A run that is to end is drained: queued jobs go first, running ones are asked and get their time. A
job without a sign of life is asked, and ended when it stays; silence is measured on the
controller's own clock (``SlotView.silent_s``). One slot makes room when the person's own other job
waits for the same cap; jobs of another run of ours get none, or two runs would never train.
"""

from __future__ import annotations

from collections.abc import Sequence

from Daddy.cluster.orchestrator.control_parameters import SILENCE_S
from Daddy.cluster.orchestrator.controller_records import (
    Attempt,
    JobState,
    Mode,
    Phase,
    QueueJob,
    Snapshot,
    WaitReason,
)
from Daddy.cluster.orchestrator.decisions.plan_input import PlanInput
from Daddy.cluster.orchestrator.plan_actions import Action, Cancel, Conclude, Notify, Signal

_STALL_S = 1800.0
"""Seconds of beats without a checkpoint that are worth a word to the person."""
_NOT_YET = ("SUSPENDED", "CONFIGURING")
"""Words for a job whose program may not run: suspended, or its node boots for it."""


def drain_run(inputs: PlanInput) -> tuple[list[Action], list[str]]:
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
    mode, drain_s = inputs.desired.mode, inputs.policy.drain_s
    said = f"the run is to {mode.value}"
    if running and mode not in (Mode.NOW, Mode.STOPPED):
        return _ask_to_leave(attempt, inputs, said, drain_s, f"still here {drain_s:g} s after")
    return _cancel(attempt, inputs, said)


def _ask_to_leave(
    attempt: Attempt, inputs: PlanInput, said: str, grace_s: float, late: str
) -> Action | None:
    """A signal first, also after a cancel that came to nothing; ``grace_s`` later a cancel."""
    signalled, cancel = attempt.requests.signalled_ts, _cancel(attempt, inputs, late)
    if cancel is not None and signalled is None:
        return Signal(attempt.token, cancel.job_id, said)
    return None if inputs.now - (signalled or inputs.now) < grace_s else cancel


def _cancel(attempt: Attempt, inputs: PlanInput, said: str) -> Cancel | None:
    """A cancel, unless one was sent that may still come to something."""
    cancelled = attempt.requests.cancelled_ts
    fresh = cancelled is not None and inputs.now - cancelled < inputs.policy.recancel_s
    if attempt.job_id is None or fresh:
        return None
    return Cancel(attempt.token, attempt.job_id, said)


def end_silent_jobs(inputs: PlanInput) -> list[Action]:
    """Signals and cancels for jobs that hang, a word about those without progress."""
    live = inputs.ledger.live
    found = [_treat(attempt, inputs) for attempt in live if attempt.phase is Phase.RUNNING]
    return [action for action in found if action is not None]


def _treat(attempt: Attempt, inputs: PlanInput) -> Action | None:
    if attempt.slot is None:
        started = attempt.started_ts
        late = started is not None and inputs.now - started >= SILENCE_S
        if not late or _may_not_run(attempt, inputs):
            return None
        return _cancel(attempt, inputs, f"no slot was claimed within {SILENCE_S:g} s")
    if attempt.observed.silent_ts is not None:
        said = f"no sign of life for more than {SILENCE_S:g} s"
        return _ask_to_leave(attempt, inputs, said, inputs.policy.recancel_s, said)
    if attempt.progressed_ts is None and attempt.training and attempt.claimed_ts is not None:
        waited_s = inputs.now - attempt.claimed_ts
        if waited_s >= _STALL_S:
            said = f"slot {attempt.slot} trains for {waited_s / 60:.0f} min without a checkpoint"
            return Notify(f"stall-{attempt.token}", said)
    return None


def _may_not_run(attempt: Attempt, inputs: PlanInput) -> bool:
    jobs = (job for job in inputs.snapshot.jobs if job.token == attempt.token)
    return any(job.word.startswith(_NOT_YET) for job in jobs)


def waiting_user_jobs(snapshot: Snapshot) -> tuple[QueueJob, ...]:
    """The person's own other jobs that wait for a running place."""
    return tuple(
        job
        for job in snapshot.others
        if not job.run_id and job.state is JobState.PENDING and job.waits is WaitReason.CAP
    )


def yield_slot(inputs: PlanInput, waiting: Sequence[QueueJob]) -> list[Action]:
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
