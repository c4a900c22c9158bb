"""Slots: a job claims a slot's lease, keeps it by heartbeats, and notices its loss.

The controller ends the terms of dead jobs. A job that wants a slot may end a term too, with proof:
the holder's process is gone from this host, the scheduler restarted the holder's job, or the
holder's heartbeat has not changed for `_SILENCE_S` on our own clock. An attempt's token holds at
most one slot (with DDP one for each rank), even if the scheduler runs the same job twice.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.host_and_processes import current_process, host_name
from Daddy.core.lease import Lease, LeaseView, end_term, is_holder_alive, read_lease
from Daddy.core.run_paths import RunPaths

SLOT_WAIT_S = 130.0
"""Seconds that a job waits for a slot whose holder leaves or is silent. Longer than `_SILENCE_S`,
since a new job would wait longer in the queue."""
LEAVING = "leaving"
"""The ``stage`` in the heartbeat of a holder that is about to leave."""
_SILENCE_S = 120.0
"""Seconds; a learner sends a heartbeat every few seconds, also while it loads."""
_POLL_S = 0.25
_BEAT_S = 1.0
"""Shortest time between two heartbeats, because each writes a file on NFS."""


class HeldSlot:
    """A slot whose lease this process holds."""

    def __init__(self, number: int, lease: Lease, clock: Clock) -> None:
        self.number = number
        self.leaves_at: float | None = None
        """Wall time at which this process leaves; its heartbeats announce it to waiting jobs."""
        self._lease = lease
        self._clock = clock
        self._guard = threading.Lock()
        self._last_beat = float("-inf")
        self._held = True
        self._data: dict[str, object] = {}

    @property
    def term(self) -> int:
        return self._lease.term

    def held(self) -> bool:
        """Return True while the lease is ours, checked at most once a second; a loss is final.

        A process that was suspended for minutes so learns of the loss before it writes a file.
        """
        if self._clock.monotonic() - self._last_beat >= _BEAT_S:
            self.beat({})
        return self._held

    def beat(self, data: Mapping[str, object]) -> None:
        """Send a heartbeat and check the lease, at most once a second unless ``stage`` changes.

        Data of earlier heartbeats is sent again with the new ``data``.
        """
        with self._guard:
            now = self._clock.monotonic()
            same = data.get("stage", self._data.get("stage")) == self._data.get("stage")
            if same and now - self._last_beat < _BEAT_S:
                return
            self._last_beat = now
            self._data |= data
            with suppress(OSError):  # others see no heartbeat and act after minutes
                self._held = self._held and self._lease.held()
                if self._held:
                    left_s = (self.leaves_at or 0.0) - self._clock.now()
                    leaves = {} if self.leaves_at is None else {"leaves_in_s": round(left_s, 1)}
                    self._lease.beat({**self._data, **leaves})

    def release(self, reason: str) -> None:
        """End the term, unless the lease was lost."""
        if self._held:
            self._lease.release(reason)


def resume_slot(run: RunPaths, slot: int, term: int, clock: Clock) -> HeldSlot | None:
    """Return the slot that this process claimed before it executed this program; None if lost."""
    folder, me = run.slot(slot).lease, (host_name(), current_process().pid)
    view = read_lease(folder)
    ours = view and (view.holder.get("host"), view.holder.get("pid")) == me
    lease = Lease.resume(folder, term) if ours else None
    return None if lease is None else HeldSlot(slot, lease, clock)


def claim_slot(
    run: RunPaths,
    slots: Sequence[int],
    holder: Mapping[str, object],
    clock: Clock,
    wait_s: float,
    asked_to_leave: Callable[[], object] = lambda: None,
    about: Mapping[int, Mapping[str, object]] | None = None,
) -> HeldSlot | None:
    """Claim the first of `slots` that is or becomes free within `wait_s` seconds; else return None.

    Returns None at once when the holder's token holds a slot already or we are asked to leave, and
    as soon as every slot's holder has sent a heartbeat and will stay. `about` has, by slot, data to
    write into its lease.
    """
    about = about or {}
    watches = {slot: _Watch(run.slot(slot).lease, clock) for slot in slots}
    deadline = clock.monotonic() + wait_s
    while _slot_of(run, holder) is None:
        for slot, watch in watches.items():
            lease = watch.try_claim({**holder, **about.get(slot, {})})
            if lease is not None:
                return _confirm(run, HeldSlot(slot, lease, clock), holder)
        left_s = deadline - clock.monotonic()
        filled = all(watch.will_stay(left_s) for watch in watches.values())
        if left_s <= 0 or filled or asked_to_leave():
            return None
        clock.wait(threading.Event(), _POLL_S)
    return None


def _confirm(run: RunPaths, slot: HeldSlot, holder: Mapping[str, object]) -> HeldSlot | None:
    """Return the slot; if another job holds one with our token, release ours, return None."""
    if _slot_of(run, holder, but=slot.number) is not None:
        slot.release("another job with this token fills a slot")
        return None
    slot.beat({"stage": "claimed"})
    return slot


def _slot_of(run: RunPaths, holder: Mapping[str, object], but: int | None = None) -> int | None:
    """Return the slot that another running process with our token holds, or None."""
    for slot in _slots(run):
        view = read_lease(run.slot(slot).lease) if slot != but else None
        if view is None or view.ended is not None or not holder.get("token"):
            continue
        same = all(view.holder.get(key) == holder.get(key) for key in ("token", "rank"))
        if same and _gone(view, holder) is None:
            return slot
    return None


def _slots(run: RunPaths) -> Iterator[int]:
    with suppress(FileNotFoundError):
        yield from sorted(int(path.name) for path in run.slots.iterdir() if path.name.isdigit())


def _gone(view: LeaseView, holder: Mapping[str, object]) -> str | None:
    """Return proof, other than a stopped heartbeat, that the holder's process is gone."""
    if is_holder_alive(view.holder) is False:
        return f"process {view.holder['pid']} is gone from this host"
    ours, theirs = holder.get("restarts"), view.holder.get("restarts")
    same = all(view.holder.get(key) == holder.get(key) is not None for key in ("token", "job_id"))
    if same and isinstance(ours, int) and isinstance(theirs, int) and theirs < ours:
        return f"the scheduler restarted job {holder['job_id']}, restart {ours}"
    return None


class _Watch:
    """Observes one slot's lease for a job that wants the slot."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._last_seen: tuple[int, object] | None = None
        self._changed_at = clock.monotonic()
        self._beat: Mapping[str, object] = {}
        self._has_changed = False

    def try_claim(self, holder: Mapping[str, object]) -> Lease | None:
        view = read_lease(self._folder)
        if view is not None and view.ended is None:
            proof = _gone(view, holder) or self._stopped_heartbeat(view)
            if proof is None:
                return None
            end_term(self._folder, view.term, proof)
        return Lease.acquire(self._folder, holder)

    def will_stay(self, seconds: float) -> bool:
        """Return True if the holder has sent a heartbeat and will not leave within `seconds`."""
        left_s = self._beat.get("leaves_in_s")
        leaves = self._beat.get("stage") == LEAVING
        soon = isinstance(left_s, int | float) and left_s < seconds
        return self._has_changed and not leaves and not soon

    def _stopped_heartbeat(self, view: LeaseView) -> str | None:
        heartbeat = (view.term, view.beat.get("counter"))
        if heartbeat != self._last_seen:
            self._has_changed = self._last_seen is not None and self._last_seen[0] == view.term
            self._last_seen, self._changed_at = heartbeat, self._clock.monotonic()
            self._beat = view.beat
        silent_s = self._clock.monotonic() - self._changed_at
        return f"no beat for {silent_s:.0f} s" if silent_s >= _SILENCE_S else None
