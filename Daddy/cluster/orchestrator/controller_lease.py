"""Becoming the one controller of a run, and seeing whether somebody is.

On this host the holder's process tells. Another host's is judged by its heartbeat alone, on our own
clock: silence for long enough means that it is gone.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from Daddy.core.clock import Clock
from Daddy.core.errors import ControllerAliveError
from Daddy.core.lease import Lease, LeaseView, end_term, is_holder_alive, read_lease
from Daddy.core.load_config import CHECKOUT
from Daddy.core.machine_info import ProcessId, current_process, host_name, is_stopped
from Daddy.core.run_paths import RunPaths

SILENCE_S = 90.0
"""Nine missed beats: then a holder on another host counts as gone."""
PASS_S = 60.0
"""A controller of a single pass is waited for: it does not stay."""


def make_holder_record(clock: Clock, *, passing: bool = False) -> dict[str, Any]:
    """A controller's facts about itself for its lease; ``passing``: it makes one pass."""
    return {
        "host": host_name(),
        **asdict(current_process()),
        "user": os.environ.get("USER", str(os.getuid())),
        "started_ts": round(clock.now(), 3),
        "release": CHECKOUT.name if CHECKOUT.parent.name == "releases" else "",
        "passing": passing,
    }


def is_controller_alive(run: RunPaths) -> bool | None:
    """True where a controller holds the run and is alive; None for one on another host."""
    view = current_holder(run)
    return False if view is None else is_holder_alive(view.holder)


def current_holder(run: RunPaths) -> LeaseView | None:
    """The term of a controller that did not end it; it may have been killed since."""
    view = read_lease(run.controller_lease)
    return view if view is not None and view.ended is None else None


def find_live_controller(
    run: RunPaths, clock: Clock, silence_s: float = SILENCE_S, *, watched: bool = False
) -> LeaseView | None:
    """The controller that certainly lives; None once it is certain that none does.

    For one on another host, or suspended, that may take ``silence_s`` seconds; the term of a dead
    one is ended. ``watched``: its beat was seen to stand still, so that its process proves nothing.
    """
    view = _when_passed(run, clock)
    if view is None:
        return None
    alive = _responds(view.holder)
    alive = None if alive and watched else alive
    if alive or (alive is None and _beats(run, view, clock, silence_s)):
        return view
    why = "its process is gone" if alive is False else f"no beat for {silence_s:g} s"
    end_term(run.controller_lease, view.term, why)
    return None


def _when_passed(run: RunPaths, clock: Clock) -> LeaseView | None:
    """The holder, once whoever makes a single pass (a job, cron) has made it."""
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
    passing: bool = False,
    watched: bool = False,
) -> Lease:
    """Become the controller; ControllerAliveError naming the one that is.

    A pass may begin between our look and our claim: who wants to stay waits for it once more.
    """
    while True:
        view = find_live_controller(run, clock, silence_s, watched=watched)
        if view is not None:
            raise _alive(view.holder)
        lease = Lease.acquire(run.controller_lease, make_holder_record(clock, passing=passing))
        if lease is not None:
            return lease
        other = current_holder(run)
        if passing or (other is not None and not other.holder.get("passing")):
            raise _alive(other.holder if other is not None else {})


def _beats(run: RunPaths, view: LeaseView, clock: Clock, silence_s: float) -> bool:
    """True if the holder's beat moves within ``silence_s`` seconds of our own clock."""
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


def _alive(who: Mapping[str, Any]) -> ControllerAliveError:
    return ControllerAliveError(
        f"this run already has a controller: {describe(who)}",
        "look at it with `status`, or end it with `stop` before starting anew",
    )


def describe(who: Mapping[str, Any]) -> str:
    """A holder in words."""
    return (
        f"pid {who.get('pid', '?')} on {who.get('host', 'another host')}, "
        f"started by {who.get('user', '?')}"
    )


def _responds(holder: Mapping[str, Any]) -> bool | None:
    """As ``is_holder_alive``, but None too for a process that was suspended: its beat decides."""
    alive = is_holder_alive(holder)
    if alive and is_stopped(ProcessId(int(holder["pid"]), float(holder["created"]))):
        return None
    return alive
