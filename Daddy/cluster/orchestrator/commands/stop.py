"""Implements ``stop``, ``stop --slot`` and ``restart``: ends the jobs of the run or of a slot.

``stop`` writes the intent to end the run, and waits until no job is left. ``stop --slot`` writes
the slot into the intent: the controller ends its job, which writes a checkpoint first, and fills
the slot after ``restart`` or ``start`` only. ``restart`` sends the signal to the slot's job; the
next one goes on in the slot.
"""

import contextlib
import os
import threading
from dataclasses import replace

from Daddy.cluster.orchestrator import controller_lease
from Daddy.cluster.orchestrator.commands.daemon import launch_controller, run_until_over
from Daddy.cluster.orchestrator.commands.run_selection import (
    Request,
    find_release,
    load_intent,
    resolve_paths,
)
from Daddy.cluster.orchestrator.control_files import read_intent, write_intent
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import (
    DesiredRun,
    JobState,
    Mode,
    UnknownQueue,
)
from Daddy.cluster.orchestrator.decisions.controller_failover import blind_seconds
from Daddy.cluster.orchestrator.scheduler_factory import choose_executor, make_scheduler
from Daddy.cluster.orchestrator.scheduler_interface import JobRef
from Daddy.cluster.orchestrator.single_pass import make_single_pass
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import (
    ControllerAliveError,
    DaddyError,
    ExitCode,
    SchedulerError,
    UsageError,
)
from Daddy.core.lease import is_holder_alive, newest_term, newest_term_state, read_lease
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config

_POLL_S = 0.2
_ASK_S = 2.0
_GRACE_S = 90.0
"""Seconds that the scheduler has to end jobs that did not exit by themselves."""


def run_stop(request: Request, *, now: bool, slot: int | None = None) -> int:
    """Write the intent to end the run and wait; act as the controller if none is alive.

    ``slot``: end the job of this slot alone.
    """
    if slot is not None:
        return _stop_slot(request, slot)
    (config, run), clock = request.find_run(), SystemClock()
    intent, damage = load_intent(run)
    if damage:
        print(f"{damage}: `stop` writes the intent anew")
        executor, game = choose_executor(config, os.environ), config.training.workload
        intent = DesiredRun(Mode.DRAIN, config.slurm.max_running, executor, "", game)
    if intent is None:
        return _stop_unrecorded(config, run, clock)
    intent = replace(intent, mode=Mode.NOW if now else Mode.DRAIN, reason="stop was typed")
    write_intent(run, intent, clock.now())
    how = "the jobs are cancelled" if now else "the jobs write checkpoints and exit"
    print(f"stopping: {how}", flush=True)
    return _wait(run, intent, config, clock)


def _stop_unrecorded(config: Config, run: RunPaths, clock: Clock) -> int:
    """Cancel the jobs of a run whose folder was moved or removed; say so if there are none."""
    scheduler = make_scheduler(choose_executor(config, os.environ), config, run, clock)
    until, asked = clock.monotonic() + _GRACE_S, False
    while True:
        reading = scheduler.snapshot()
        if isinstance(reading, UnknownQueue):
            raise SchedulerError(f"the queue cannot be read: {reading.error}", "type stop again")
        jobs = [job for job in reading.jobs if job.state is not JobState.ENDED]
        if not jobs:
            none = f"nothing to stop: no run was ever started in {run.root}"
            print("stopped: no job is left" if asked else none)
            return ExitCode.DONE
        if clock.monotonic() > until:
            names = ", ".join(str(job.job_id) for job in jobs)
            raise SchedulerError(f"still in the queue: {names}", "type stop again, or scancel")
        if not asked:
            print(f"{run.root} records no run, and {len(jobs)} of its jobs are in the queue: "
                  "they are cancelled", flush=True)  # fmt: skip
            for job in jobs:
                scheduler.cancel(JobRef(job.job_id, job.token))
            asked = True
        clock.wait(threading.Event(), 1.0)


def _wait(run: RunPaths, intent: DesiredRun, config: Config, clock: Clock) -> int:
    release, config = find_release(run, intent, resolve_paths(config, intent.executor))
    until = clock.monotonic() + ControllerPolicy().drain_s + _GRACE_S
    remote_term = 0  # of a controller on another host, which reads the same intent
    late: DaddyError = SchedulerError(
        "the controller has not seen all jobs leave yet, and goes on waiting",
        "type `run_controller status` to see them, or `run_controller stop --now`",
    )
    while not _is_over(run):
        if (wanted := read_intent(run)) is not None and wanted.mode is Mode.RUN:
            return _leave(run, wanted, config)
        if clock.monotonic() > until:
            raise late
        if _nobody_acts(run, remote_term):
            try:
                given_up = run_until_over(run, release, config, clock)
            except ControllerAliveError:
                remote_term = newest_term(run.controller_lease)
            except SchedulerError as error:
                if late.message != error.message:
                    print(f"waiting until it can be read: {error.message}", flush=True)
                late = error
                clock.wait(threading.Event(), _ASK_S)
            else:
                wanted = read_intent(run)
                goes_on = given_up or (wanted is not None and wanted.mode is Mode.RUN)
                if not goes_on and not _is_over(run):
                    print("interrupted by a signal: type `run_controller stop` again")
                    return ExitCode.DONE
        clock.wait(threading.Event(), _POLL_S)
    print("stopped: no job is left")
    return ExitCode.DONE


def _leave(run: RunPaths, wanted: DesiredRun, config: Config) -> int:
    """Leave the run to the `start` that was typed meanwhile, with a controller of its own.

    1. `stop` becomes the controller. 2. `start` changes the intent, and its own controller finds
    ours. 3. Ours ends: the run would have none.
    """
    print("start was typed meanwhile: the run goes on")
    if wanted.daemon:
        with contextlib.suppress(ControllerAliveError):
            launch_controller(run, find_release(run, wanted, config)[0])
    return ExitCode.DONE


def _nobody_acts(run: RunPaths, remote_term: int) -> bool:
    """Return True if no controller lives, or it cannot read the queue, or is not known to live."""
    view = controller_lease.current_holder(run)
    if view is None or blind_seconds(view.beat):
        return True
    alive = is_holder_alive(view.holder)
    return alive is False or (alive is None and view.term != remote_term)


def _is_over(run: RunPaths) -> bool:
    intent = read_intent(run)
    return intent is not None and intent.mode in (Mode.STOPPED, Mode.DONE)


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


def _stop_slot(request: Request, slot: int) -> int:
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
