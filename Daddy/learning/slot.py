"""Filling a slot: claiming its lease, keeping it, and noticing when it was given away.

The controller ends the terms of the dead. A learner started by hand has no controller, so whoever
wants a slot may end a term with proof of its own: the holder's process is gone from this host, or
its beat stood still for `_SILENCE_S` on our own clock. No torch here: a job that finds no slot
leaves before it costs anything.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.lease import Lease, LeaseView, end_term, read_lease
from Daddy.core.machine import ProcessId, host_name, is_alive
from Daddy.core.paths import RunPaths

_SILENCE_S = 120.0
"""A learner beats every few seconds; its longest silence is loading torch over a slow NFS."""
_LOOK_S = 0.25
_BEAT_S = 1.0
"""Shortest time between two beats: each one is a file written on NFS."""


class Seat:
    """A slot that this process fills."""

    def __init__(self, number: int, lease: Lease, clock: Clock) -> None:
        self.number = number
        self._lease = lease
        self._clock = clock
        self._last_beat = float("-inf")
        self._held = True

    @property
    def term(self) -> int:
        return self._lease.term

    def held(self) -> bool:
        """Whether the slot is still ours; looked up with every beat, and final once it is not."""
        return self._held

    def beat(self, data: Mapping[str, object]) -> None:
        """Prove life, at most once a second; learn whether the slot is still ours."""
        if self._clock.monotonic() - self._last_beat < _BEAT_S:
            return
        self._last_beat = self._clock.monotonic()
        with suppress(OSError):  # a full disk: silence is judged by others, after minutes
            self._held = self._held and self._lease.held()
            if self._held:
                self._lease.beat(data)

    def release(self, reason: str) -> None:
        """End the term in good order, unless it was taken away."""
        if self._held:
            self._lease.release(reason)


def claim(
    run: RunPaths,
    slots: Sequence[int],
    holder: Mapping[str, object],
    clock: Clock,
    patience_s: float,
) -> Seat | None:
    """The first slot of `slots` that is or becomes free within `patience_s`; None otherwise."""
    watches = {slot: _Watch(run.slot(slot).lease, clock) for slot in slots}
    deadline = clock.monotonic() + patience_s
    while True:
        for slot, watch in watches.items():
            lease = watch.try_claim(holder)
            if lease is not None:
                seat = Seat(slot, lease, clock)
                seat.beat({"stage": "claimed"})
                return seat
        if clock.monotonic() >= deadline:
            return None
        clock.wait(threading.Event(), _LOOK_S)


class _Watch:
    """One slot's lease as seen over time by someone who wants it."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._seen: tuple[int, object] | None = None
        self._since = clock.monotonic()

    def try_claim(self, holder: Mapping[str, object]) -> Lease | None:
        view = read_lease(self._folder)
        if view is not None and view.ended is None:
            proof = self._proof_of_death(view)
            if proof is None:
                return None
            end_term(self._folder, view.term, proof)
        return Lease.claim(self._folder, holder)

    def _proof_of_death(self, view: LeaseView) -> str | None:
        if process_is_gone(view.holder):
            return f"process {view.holder['pid']} is gone from this host"
        seen = (view.term, view.beat.get("counter"))
        if seen != self._seen:
            self._seen, self._since = seen, self._clock.monotonic()
        silent = self._clock.monotonic() - self._since
        return f"no beat for {silent:.0f} s" if silent >= _SILENCE_S else None


def process_is_gone(holder: Mapping[str, object]) -> bool:
    """Whether the holder was a process of this very host that no longer exists."""
    pid, created = holder.get("pid"), holder.get("created")
    if holder.get("host") != host_name() or not isinstance(pid, int):
        return False
    return isinstance(created, int | float) and not is_alive(ProcessId(pid, float(created)))
