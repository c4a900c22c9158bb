"""Filling a slot: claiming its lease, keeping it, and noticing when it was given away.

The controller ends the terms of the dead. Whoever wants a slot may end a term with proof of its
own: the holder's process is gone from this host, the scheduler started the holder's job anew, or
the holder's beat stood still for `_SILENCE_S` on our own clock. A token fills one slot at most,
whatever a scheduler may run twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.lease import Lease, LeaseView, end_term, is_holder_alive, read_lease
from Daddy.core.machine_info import current_process, host_name
from Daddy.core.run_paths import RunPaths

SLOT_WAIT_S = 130.0
"""How long a job waits for a slot whose holder leaves or is silent: longer than `_SILENCE_S`, since
a place in the queue is worth more than two minutes."""
LEAVING = "leaving"
"""The stage of a holder that is on its way out."""
_SILENCE_S = 120.0
"""A learner beats every few seconds, also while it loads."""
_LOOK_S = 0.25
_BEAT_S = 1.0
"""Shortest time between two beats: each one is a file written on NFS."""


class HeldSlot:
    """A slot that this process fills."""

    def __init__(self, number: int, lease: Lease, clock: Clock) -> None:
        self.number = number
        self.leaves_at: float | None = None
        """When we mean to leave, wall seconds; those who wait for the slot are told."""
        self._lease = lease
        self._clock = clock
        self._guard = threading.Lock()
        self._last_beat = float("-inf")
        self._held = True
        self._told: dict[str, object] = {}

    @property
    def term(self) -> int:
        return self._lease.term

    def held(self) -> bool:
        """Whether the slot is still ours: looked up once a second, and final once it is not.

        So a process that was stopped for minutes knows before it writes anything.
        """
        if self._clock.monotonic() - self._last_beat >= _BEAT_S:
            self.beat({})
        return self._held

    def beat(self, data: Mapping[str, object]) -> None:
        """Prove life, at most once a second unless the ``stage`` changes; learn whose it is.

        What was told before is told again.
        """
        with self._guard:
            now = self._clock.monotonic()
            same = data.get("stage", self._told.get("stage")) == self._told.get("stage")
            if same and now - self._last_beat < _BEAT_S:
                return
            self._last_beat = now
            self._told |= data
            with suppress(OSError):  # a full disk: silence is judged by others, after minutes
                self._held = self._held and self._lease.held()
                if self._held:
                    rest = (self.leaves_at or 0.0) - self._clock.now()
                    leaves = {} if self.leaves_at is None else {"leaves_in_s": round(rest, 1)}
                    self._lease.beat({**self._told, **leaves})

    def release(self, reason: str) -> None:
        """End the term in good order, unless it was taken away."""
        if self._held:
            self._lease.release(reason)


def resume_slot(run: RunPaths, slot: int, term: int, clock: Clock) -> HeldSlot | None:
    """The seat that this process claimed before it became another program; None if it was lost."""
    folder, me = run.slot(slot).lease, (host_name(), current_process().pid)
    view = read_lease(folder)
    mine = view and (view.holder.get("host"), view.holder.get("pid")) == me
    lease = Lease.resume(folder, term) if mine else None
    return None if lease is None else HeldSlot(slot, lease, clock)


def claim_slot(
    run: RunPaths,
    slots: Sequence[int],
    holder: Mapping[str, object],
    clock: Clock,
    patience_s: float,
    asked_to_leave: Callable[[], object] = lambda: None,
    about: Mapping[int, Mapping[str, object]] | None = None,
) -> HeldSlot | None:
    """The first slot of `slots` that is or becomes free within `patience_s`; None otherwise.

    None at once when the holder's token fills a slot already or we are asked to leave, and as soon
    as every slot is seen to be filled by a learner that means to stay. `about` are facts to write
    into the lease of one slot or another.
    """
    about = about or {}
    watches = {slot: _Watch(run.slot(slot).lease, clock) for slot in slots}
    deadline = clock.monotonic() + patience_s
    while _twin(run, holder) is None:
        for slot, watch in watches.items():
            lease = watch.try_claim({**holder, **about.get(slot, {})})
            if lease is not None:
                return _take(run, HeldSlot(slot, lease, clock), holder)
        rest = deadline - clock.monotonic()
        filled = all(watch.stays(rest) for watch in watches.values())
        if rest <= 0 or filled or asked_to_leave():
            return None
        clock.wait(threading.Event(), _LOOK_S)
    return None


def _take(run: RunPaths, seat: HeldSlot, holder: Mapping[str, object]) -> HeldSlot | None:
    """Of two jobs with one token that claim at once, at least one sees the other and leaves."""
    if _twin(run, holder, but=seat.number) is not None:
        seat.release("another job with this token fills a slot")
        return None
    seat.beat({"stage": "claimed"})
    return seat


def _twin(run: RunPaths, holder: Mapping[str, object], but: int | None = None) -> int | None:
    """The slot that another living process with our token fills; None as it should be."""
    for slot in _slots(run):
        view = read_lease(run.slot(slot).lease) if slot != but else None
        if view is None or view.ended is not None or not holder.get("token"):
            continue
        if view.holder.get("token") == holder["token"] and _gone(view, holder) is None:
            return slot
    return None


def _slots(run: RunPaths) -> Iterator[int]:
    with suppress(FileNotFoundError):
        yield from sorted(int(path.name) for path in run.slots.iterdir() if path.name.isdigit())


def _gone(view: LeaseView, holder: Mapping[str, object]) -> str | None:
    """Proof that a term's holder no longer exists, other than its silence."""
    if is_holder_alive(view.holder) is False:
        return f"process {view.holder['pid']} is gone from this host"
    ours, theirs = holder.get("restarts"), view.holder.get("restarts")
    same = all(view.holder.get(key) == holder.get(key) is not None for key in ("token", "job_id"))
    if same and isinstance(ours, int) and isinstance(theirs, int) and theirs < ours:
        return f"the scheduler started job {holder['job_id']} anew, restart {ours}"
    return None


class _Watch:
    """One slot's lease as seen over time by someone who wants it."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._seen: tuple[int, object] | None = None
        self._since = clock.monotonic()
        self._beat: Mapping[str, object] = {}
        self._moved = False

    def try_claim(self, holder: Mapping[str, object]) -> Lease | None:
        view = read_lease(self._folder)
        if view is not None and view.ended is None:
            proof = _gone(view, holder) or self._silence(view)
            if proof is None:
                return None
            end_term(self._folder, view.term, proof)
        return Lease.acquire(self._folder, holder)

    def stays(self, seconds: float) -> bool:
        """Whether its holder was seen to beat and does not mean to leave within `seconds`."""
        rest = self._beat.get("leaves_in_s")
        leaves = self._beat.get("stage") == LEAVING
        return self._moved and not leaves and not (isinstance(rest, int | float) and rest < seconds)

    def _silence(self, view: LeaseView) -> str | None:
        seen = (view.term, view.beat.get("counter"))
        if seen != self._seen:
            self._moved = self._seen is not None and self._seen[0] == view.term
            self._seen, self._since = seen, self._clock.monotonic()
            self._beat = view.beat
        silent = self._clock.monotonic() - self._since
        return f"no beat for {silent:.0f} s" if silent >= _SILENCE_S else None
