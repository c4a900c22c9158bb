"""Implements ``restart`` and ``stop --slot``: ends one slot's job, which writes a checkpoint first.

``restart`` sends the signal to the job; the next one goes on in the slot. ``stop --slot`` writes
the slot into the intent: the controller ends the job, and fills the slot after ``restart`` or
``start`` only.
"""

import threading
from dataclasses import replace

from Daddy.cluster.orchestrator import controller_lease
from Daddy.cluster.orchestrator.commands.run_selection import Request, find_release
from Daddy.cluster.orchestrator.control_files import read_intent, write_intent
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import DesiredRun, Mode, UnknownQueue
from Daddy.cluster.orchestrator.scheduler_factory import make_scheduler
from Daddy.cluster.orchestrator.scheduler_interface import JobRef
from Daddy.cluster.orchestrator.single_pass import make_single_pass
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import ExitCode, SchedulerError, UsageError
from Daddy.core.lease import is_holder_alive, newest_term_state, read_lease
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config

_POLL_S = 0.2
_GRACE_S = 90.0
"""Seconds that the scheduler has to end a job that did not exit by itself."""


def run_restart(request: Request, *, slot: int) -> int:
    """Let the slot's job write a checkpoint and exit; fill a stopped slot again."""
    (config, run), clock = request.find_run(), SystemClock()
    intent = _running(run, slot)
    if slot in intent.stopped_slots:
        rest = tuple(number for number in intent.stopped_slots if number != slot)
        write_intent(run, replace(intent, stopped_slots=rest), clock.now())
        print(f"slot {slot} is filled again: `run_controller status` shows its job")
        return ExitCode.DONE
    view = read_lease(run.slot(slot).lease)
    job = "" if view is None or view.ended is not None else str(view.holder.get("job_id", ""))
    if view is None or not job.isdigit():
        raise UsageError(f"slot {slot} has no job", "`run_controller status` tells the reason")
    scheduler = make_scheduler(intent.executor, find_release(run, intent, config)[1], run, clock)
    reading = scheduler.snapshot()  # a job is signalled by its name in the listing
    if isinstance(reading, UnknownQueue):
        raise SchedulerError(f"the queue cannot be read: {reading.error}", "try again later")
    scheduler.signal(JobRef(int(job), str(view.holder.get("token"))))
    print(
        f"slot {slot}: job {job} writes a checkpoint and exits, the next job goes on from it "
        f"(`run_controller attach --slot {slot}` shows both)"
    )
    return ExitCode.DONE


def stop_slot(request: Request, slot: int) -> int:
    """Write the slot as stopped into the intent, and wait until it is empty."""
    (config, run), clock = request.find_run(), SystemClock()
    intent = _running(run, slot)
    intent = replace(intent, stopped_slots=tuple(sorted({*intent.stopped_slots, slot})))
    write_intent(run, intent, clock.now())
    print(f"stopping slot {slot}: its job writes a checkpoint and exits", flush=True)
    _wait_until_empty(run, slot, intent, config, clock)
    again = f"`run_controller restart --slot {slot}` or `run_controller start` fills it again"
    print(f"slot {slot} is empty: {again}")
    return ExitCode.DONE


def _running(run: RunPaths, slot: int) -> DesiredRun:
    """Return the intent of a run that fills its slots; UsageError for others, and without slot."""
    intent = read_intent(run)
    if intent is None or intent.mode is not Mode.RUN:
        state = "was never started" if intent is None else f"is {intent.mode.value}"
        raise UsageError(f"the run in {run.root} {state}", "type `run_controller start`")
    if slot >= intent.slots:
        raise UsageError(f"there is no slot {slot}", f"choose a slot from 0 to {intent.slots - 1}")
    return intent


def _wait_until_empty(
    run: RunPaths, slot: int, intent: DesiredRun, config: Config, clock: Clock
) -> None:
    """Wait until the slot's term has ended; make the controller's pass if none is alive."""
    until = clock.monotonic() + ControllerPolicy().drain_s + _GRACE_S
    lease, passed = run.slot(slot).lease, False
    while (state := newest_term_state(lease))[0] and not state[1]:
        if clock.monotonic() > until:
            raise SchedulerError(
                f"slot {slot} still has its job",
                "`run_controller status` shows it; a controller of the release before does not "
                "know this wish: type `run_controller stop`, then start",
            )
        holder = controller_lease.current_holder(run)
        if not passed and (holder is None or is_holder_alive(holder.holder) is False):
            make_single_pass(run, find_release(run, intent, config)[0], clock)
            passed = True
        clock.wait(threading.Event(), _POLL_S)
