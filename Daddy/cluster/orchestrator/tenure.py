"""Becoming the one controller of a run, and seeing whether somebody is.

On this host the holder's process tells. Another host's is judged by its heartbeat alone, on our own
clock: silence for long enough means that it is gone.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

from Daddy.cluster.orchestrator.slots import holder_alive
from Daddy.core.clock import Clock
from Daddy.core.errors import ControllerAliveError
from Daddy.core.lease import Lease, LeaseView, end_term, read_lease
from Daddy.core.machine import host_name, myself
from Daddy.core.paths import RunPaths

SILENCE_S = 90.0
"""Nine missed beats: then a holder on another host counts as gone."""


def me(clock: Clock) -> dict[str, Any]:
    """What a controller writes about itself into its lease."""
    who = myself()
    return {
        "host": host_name(),
        "pid": who.pid,
        "created": who.created,
        "user": os.environ.get("USER", str(os.getuid())),
        "started_ts": round(clock.now(), 3),
    }


def lives(run: RunPaths) -> bool | None:
    """Whether a controller holds the run and is alive; None for one on another host."""
    view = holder(run)
    return False if view is None else holder_alive(view.holder)


def holder(run: RunPaths) -> LeaseView | None:
    """The term of a controller that did not end it; it may have been killed since."""
    view = read_lease(run.controller_lease)
    return view if view is not None and view.ended is None else None


def take(run: RunPaths, clock: Clock, silence_s: float = SILENCE_S) -> Lease:
    """Become the controller; ControllerAliveError naming the one that is."""
    refuse_if_alive(run)
    view = holder(run)
    if view is not None:
        if holder_alive(view.holder) is None and _beats(run, view, clock, silence_s):
            raise _alive(view.holder)
        end_term(run.controller_lease, view.term, "its process is gone")
    lease = Lease.claim(run.controller_lease, me(clock))
    if lease is None:
        other = holder(run)
        raise _alive(other.holder if other is not None else {})
    return lease


def refuse_if_alive(run: RunPaths) -> None:
    """ControllerAliveError when a controller on this host certainly lives."""
    view = holder(run)
    if view is not None and holder_alive(view.holder):
        raise _alive(view.holder)


def _beats(run: RunPaths, view: LeaseView, clock: Clock, silence_s: float) -> bool:
    """Whether the holder's beat moves within ``silence_s`` seconds of our own clock."""
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
        f"this run already has a controller: pid {who.get('pid', '?')} on "
        f"{who.get('host', 'another host')}, started by {who.get('user', '?')}",
        "look at it with `status`, or end it with `stop` before starting anew",
    )
