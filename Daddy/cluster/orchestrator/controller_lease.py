"""Claims the lease that makes a process the only controller of a run, and reads its holder.

A holder on this host is checked by its process id. A holder on another host is checked by its
heartbeat alone, on our own clock: after ``SILENCE_S`` without a beat it counts as gone. A holder
that cannot read the queue gives way to a process that can (``decisions.controller_failover``).
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from Daddy.cluster.orchestrator.control_files import write_answered
from Daddy.cluster.orchestrator.controller_types import QueueReading, UnknownQueue
from Daddy.cluster.orchestrator.decisions.controller_failover import SILENCE_S, blind_seconds
from Daddy.core.clock import Clock
from Daddy.core.errors import ControllerAliveError, SchedulerError
from Daddy.core.host_and_processes import (
    ProcessId,
    current_process,
    host_name,
    is_stopped,
    user_name,
)
from Daddy.core.lease import Lease, LeaseView, end_term, is_holder_alive, read_lease
from Daddy.core.load_config import CHECKOUT
from Daddy.core.run_paths import RunPaths

PASS_S = 60.0
"""Longest time to wait for a holder that makes a single pass, or a blind one, to end its term."""


def make_holder_record(clock: Clock, *, passing: bool = False) -> dict[str, Any]:
    """Return this process's holder record; ``passing``: it makes a single pass."""
    return {
        "host": host_name(),
        **asdict(current_process()),
        "user": user_name(),
        "started_ts": round(clock.now(), 3),
        "release": CHECKOUT.name if CHECKOUT.parent.name == "releases" else "",
        "passing": passing,
        "keeps_run_id": True,  # a controller of the release before takes it from each release
    }


def current_holder(run: RunPaths) -> LeaseView | None:
    """Return the newest term of the lease, None if it has ended; its holder may be dead."""
    view = read_lease(run.controller_lease)
    return view if view is not None and view.ended is None else None


def find_live_controller(
    run: RunPaths, clock: Clock, silence_s: float = SILENCE_S, *, watched: bool = False
) -> LeaseView | None:
    """Return the lease of a running controller; if none runs, end the term and return None.

    Takes up to ``silence_s`` seconds for a holder that is suspended or on another host.
    ``watched``: the caller saw no heartbeat for long, so a process alone does not count as running.
    """
    view = _wait_for_single_pass(run, clock)
    if view is None:
        return None
    alive = _responds(view.holder)
    alive = None if alive and watched else alive
    if alive or (alive is None and _beats(run, view, clock, silence_s)):
        return view
    reason = "its process is gone" if alive is False else f"no beat for {silence_s:g} s"
    end_term(run.controller_lease, view.term, reason)
    return None


def _wait_for_single_pass(run: RunPaths, clock: Clock) -> LeaseView | None:
    """Wait up to 60 s while a single pass (by a job or cron) holds the lease; return the lease."""
    until, never = clock.monotonic() + PASS_S, threading.Event()
    while True:
        view = current_holder(run)
        if view is None or not view.holder.get("passing") or clock.monotonic() > until:
            return view
        if is_holder_alive(view.holder) is False:
            return view
        clock.wait(never, 0.2)


def become_controller(
    run: RunPaths,
    clock: Clock,
    silence_s: float = SILENCE_S,
    *,
    list_queue: Callable[[], QueueReading] | None = None,
    passing: bool = False,
    watched: bool = False,
) -> Lease:
    """Claim and return the controller's lease. Raises ControllerAliveError if another holds it.

    Raises SchedulerError if ``list_queue`` gets no answer. 1. No controller runs. 2. A single pass
    claims the lease. 3. Our claim fails: unless we want a single pass, too, we wait for its end and
    try again.
    """
    while True:
        view = find_live_controller(run, clock, silence_s, watched=watched)
        if view is not None and (list_queue is None or not blind_seconds(view.beat)):
            raise _alive(view.holder)
        if list_queue is not None:
            _check_answer(list_queue())
        if view is not None:
            _ask_blind_holder(run, clock, view)
            continue
        lease = Lease.acquire(run.controller_lease, make_holder_record(clock, passing=passing))
        if lease is not None:
            return lease
        other = current_holder(run)
        if passing or (other is not None and not other.holder.get("passing")):
            raise _alive(other.holder if other is not None else {})


def _check_answer(reading: QueueReading) -> None:
    """Raise SchedulerError for a listing without an answer."""
    if isinstance(reading, UnknownQueue):
        raise SchedulerError(
            f"no controller starts here: the queue cannot be read ({reading.error})",
            "type `squeue --me` to see it; where it works in your shell and not in cron, type "
            "`run_controller start` in your shell: it keeps what Slurm needs of the environment",
        )


def _ask_blind_holder(run: RunPaths, clock: Clock, view: LeaseView) -> None:
    """Write that our listing answered; wait up to 60 s until the holder ends its term.

    Raises ControllerAliveError if it does not, or if it can read the queue again.
    """
    me = make_holder_record(clock)
    write_answered(run, f"pid {me['pid']} on {me['host']}", clock.now())
    until, never = clock.monotonic() + PASS_S, threading.Event()
    now: LeaseView | None = view
    while now is not None and now.term == view.term:
        if not blind_seconds(now.beat) or clock.monotonic() > until:
            raise _alive(view.holder)
        clock.wait(never, 0.2)
        now = current_holder(run)


def _beats(run: RunPaths, view: LeaseView, clock: Clock, silence_s: float) -> bool:
    """Return True if the holder sends a heartbeat within ``silence_s`` seconds of our clock."""
    print(
        f"a controller on {view.holder.get('host', 'another host')} may hold this run: "
        f"watching its heartbeat for up to {silence_s:g} s",
        flush=True,
    )
    until, never = clock.monotonic() + silence_s, threading.Event()
    while clock.monotonic() < until:
        clock.wait(never, min(1.0, silence_s / 10))
        now = read_lease(run.controller_lease)
        if now is None or now.term != view.term or now.ended is not None:
            return now is not None and now.ended is None
        if now.beat.get("counter") != view.beat.get("counter"):
            return True
    return False


def _alive(record: Mapping[str, Any]) -> ControllerAliveError:
    return ControllerAliveError(
        f"this run already has a controller: {describe(record)}",
        "type `run_controller status` to see it; to replace it, `run_controller stop`, then start",
    )


def describe(record: Mapping[str, Any]) -> str:
    """Return a holder's process id, host and user as text."""
    return (
        f"pid {record.get('pid', '?')} on {record.get('host', 'another host')}, "
        f"started by {record.get('user', '?')}"
    )


def _responds(holder: Mapping[str, Any]) -> bool | None:
    """Return ``is_holder_alive``, but None for a suspended process: its heartbeat decides."""
    alive = is_holder_alive(holder)
    if alive and is_stopped(ProcessId(int(holder["pid"]), float(holder["created"]))):
        return None
    return alive
