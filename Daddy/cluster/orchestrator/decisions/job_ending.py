"""Pure. Decides which running jobs are signalled to exit and which are cancelled.

To end a run, queued jobs are cancelled first; running ones get a signal and time for a checkpoint.
A job whose heartbeat stopped gets a signal, and later a cancel; the silence is measured on the
controller's own clock (``SlotView.silent_s``). One slot is freed when another job of the person
waits for the same cap, unless that job is of another Daddy run: two runs would stop each other.
"""

from collections.abc import Container, Iterator, Sequence

from Daddy.cluster.orchestrator.action_types import Action, Cancel, Conclude, Notify, Signal
from Daddy.cluster.orchestrator.control_parameters import SILENCE_S
from Daddy.cluster.orchestrator.controller_types import (
    Attempt,
    JobState,
    Mode,
    Phase,
    QueueJob,
    Snapshot,
    WaitReason,
)
from Daddy.cluster.orchestrator.decisions.plan_input import PlanInput

_STALL_S = 1800.0
"""Seconds with a heartbeat and without a checkpoint after which the person is notified."""
_NOT_YET = ("SUSPENDED", "CONFIGURING")
"""Job states in which the program does not run: suspended, or the node still boots."""


def drain_run(inputs: PlanInput) -> tuple[list[Action], list[str]]:
    """Return the actions that end every job, waiting ones first; ``Conclude`` if none is left."""
    mode, live = inputs.desired.mode, inputs.ledger.live
    if not live:
        final = Mode.DONE if mode is Mode.DONE else Mode.STOPPED
        return [Conclude(final, "no job is left")], ["no job is left"]
    states = {job.token: JobState.RUNNING for job in live if job.phase is Phase.RUNNING}
    states |= {job.token: job.state for job in inputs.snapshot.jobs}  # some may be missing
    running = {token for token, state in states.items() if state is JobState.RUNNING}
    wanted = (
        _end_job(attempt, inputs, running=attempt.token in running)
        for attempt in sorted(live, key=lambda attempt: attempt.token in running)
    )
    actions = [action for action in wanted if action is not None]
    return actions, [f"{mode.value}: {len(live)} jobs still have to exit"]


def _end_job(attempt: Attempt, inputs: PlanInput, *, running: bool) -> Action | None:
    mode, drain_s = inputs.desired.mode, inputs.policy.drain_s
    reason = f"the run's mode is {mode.value!r}"
    if running and mode not in (Mode.NOW, Mode.STOPPED):
        overdue = f"still here {drain_s:g} s after"
        return _signal_then_cancel(attempt, inputs, reason, drain_s, overdue)
    return _cancel(attempt, inputs, reason)


def _signal_then_cancel(
    attempt: Attempt, inputs: PlanInput, reason: str, grace_s: float, overdue: str
) -> Action | None:
    """Return a Signal first, then None for ``grace_s`` seconds, then a Cancel."""
    signalled, cancel = attempt.requests.signalled_ts, _cancel(attempt, inputs, overdue)
    if cancel is not None and signalled is None:
        return Signal(attempt.token, cancel.job_id, reason)
    return None if inputs.now - (signalled or inputs.now) < grace_s else cancel


def _cancel(attempt: Attempt, inputs: PlanInput, reason: str) -> Cancel | None:
    """Return a Cancel; None without a job id or within ``recancel_s`` seconds of a cancel."""
    cancelled = attempt.requests.cancelled_ts
    fresh = cancelled is not None and inputs.now - cancelled < inputs.policy.recancel_s
    if attempt.job_id is None or fresh:
        return None
    return Cancel(attempt.token, attempt.job_id, reason)


def end_silent_jobs(inputs: PlanInput) -> list[Action]:
    """Return signals and cancels for hung jobs, and notifications of jobs without progress."""
    live = inputs.ledger.live
    running = (attempt for attempt in live if attempt.phase is Phase.RUNNING)
    actions = (_handle_hung(attempt, inputs) for attempt in running)
    return [action for action in actions if action is not None]


def _handle_hung(attempt: Attempt, inputs: PlanInput) -> Action | None:
    if attempt.slot is None:
        started = attempt.started_ts
        late = started is not None and inputs.now - started >= SILENCE_S
        if not late or _may_not_run(attempt, inputs):
            return None
        return _cancel(attempt, inputs, f"no slot was claimed within {SILENCE_S:g} s")
    if attempt.observed.silent_ts is not None:
        reason = f"no heartbeat for more than {SILENCE_S:g} s"
        return _signal_then_cancel(attempt, inputs, reason, inputs.policy.recancel_s, reason)
    if attempt.progressed_ts is None and attempt.training and attempt.claimed_ts is not None:
        waited_s = inputs.now - attempt.claimed_ts
        if waited_s >= _STALL_S:
            reason = f"slot {attempt.slot} trains for {waited_s / 60:.0f} min without a checkpoint"
            return Notify(f"stall-{attempt.token}", reason)
    return None


def end_stopped_slots(inputs: PlanInput) -> list[Action]:
    """Return the actions that end the jobs of stopped slots, and cancel their successors."""
    stopped, drain_s = inputs.desired.stopped_slots, inputs.policy.drain_s
    if not stopped:
        return []
    leaving = [attempt for attempt in inputs.training if attempt.slot in stopped]
    overdue = f"still here {drain_s:g} s after"
    ends = [
        _signal_then_cancel(attempt, inputs, f"slot {attempt.slot} is stopped", drain_s, overdue)
        for attempt in leaving
    ]
    ends += [
        _cancel(attempt, inputs, "a slot is stopped: no place for it is left")
        for attempt in _without_slot(inputs, {attempt.job_id for attempt in leaving})
    ]
    return [action for action in ends if action is not None]


def _without_slot(inputs: PlanInput, leaving: Container[int | None]) -> Iterator[Attempt]:
    """Yield queued jobs that follow none or a leaving job, while no slot is to be filled."""
    if not inputs.fill and not inputs.holds:
        for attempt in inputs.waiting:
            if attempt.queued and (attempt.after is None or attempt.after in leaving):
                yield attempt


def _may_not_run(attempt: Attempt, inputs: PlanInput) -> bool:
    jobs = (job for job in inputs.snapshot.jobs if job.token == attempt.token)
    return any(job.slurm_state.startswith(_NOT_YET) for job in jobs)


def waiting_user_jobs(snapshot: Snapshot) -> tuple[QueueJob, ...]:
    """Return the person's jobs, of no Daddy run, that wait for the cap of running jobs."""
    return tuple(
        job
        for job in snapshot.others
        if not job.run_id and job.state is JobState.PENDING and job.wait_reason is WaitReason.CAP
    )


def yield_slot(inputs: PlanInput, waiting: Sequence[QueueJob]) -> list[Action]:
    """Return a signal to the oldest training job, unless a slot is empty or leaving already."""
    live = inputs.ledger.live
    slots = inputs.desired.open_slots
    training = [attempt for attempt in live if attempt.training and attempt.slot in slots]
    leaving = any(job.left_ts is not None or job.requests.signalled_ts for job in live)
    if not waiting or leaving or len(training) < len(slots):
        return []
    oldest = max(training, key=lambda job: (-(job.started_ts or 0.0), job.number))
    if oldest.job_id is None:
        return []
    reason = f"your job {waiting[0].job_id} waits for a place: it comes first"
    return [Signal(oldest.token, oldest.job_id, reason)]
