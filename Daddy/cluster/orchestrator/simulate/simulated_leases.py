"""The slots' leases: the simulated jobs claim them, the controller reads them.

The rules are those of ``core.seat``: a job takes a slot that the orders name and whose term has
ended; it waits while a holder leaves or is silent, ends the term of one that was silent for two
minutes, and goes (exit code 11) when every slot is held by a job that means to stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from Daddy.cluster.orchestrator.records import Orders, SlotView
from Daddy.cluster.orchestrator.simulate.site import NOT_NEEDED, Job, Site, Stage
from Daddy.core.seat import PATIENCE_S

_SILENCE_S = 120.0
_LOOK_S = 2.0
_SILENT = (Stage.HUNG, Stage.DEAD, Stage.ENDED)
_STAYING = (Stage.BOOTING, Stage.TRAINING)


@dataclass(slots=True)
class SlotLease:
    """A slot's newest term."""

    term: int = 0
    job: Job | None = None
    goodbye: str | None = "never held"
    release: str = ""
    checkpoint_term: int = 0

    def silent_s(self, now: float) -> float:
        """Time since the holder's last sign of life."""
        job = self.job
        if job is None or job.stage not in _SILENT:
            return 0.0
        return now - (job.ended if job.silent_from is None else job.silent_from)


class SimulatedLeases:
    """All slots of the run. ``claimed`` is called when one is taken."""

    def __init__(self, site: Site, count: int, claimed: Callable[[Job, SlotLease], None]) -> None:
        self.site = site
        self.slots = [SlotLease() for _ in range(count)]
        self.orders = Orders()
        self._claimed = claimed

    def seek(self, job: Job) -> None:
        """The job looks for a slot, and again every two seconds while that may help."""
        if not job.running:
            return
        now, waited = self.site.now, self.site.now - job.started
        wanted = [slot for slot in sorted(self.orders.slots) if slot < len(self.slots)]
        for number in wanted:
            slot = self.slots[number]
            # silence counts on the newcomer's own clock
            if slot.goodbye is None and min(slot.silent_s(now), waited) >= _SILENCE_S:
                slot.goodbye = "no beat"
            if slot.goodbye is not None:
                slot.term, slot.job, slot.goodbye = slot.term + 1, job, None
                slot.release = self.orders.slots[number]
                job.track = number
                self._claimed(job, slot)
                return
        holders = (self.slots[number].job for number in wanted)
        hope = any(holder is None or holder.stage not in _STAYING for holder in holders)
        if waited >= PATIENCE_S or (waited > 0 and not hope):
            self.site.end(job, "FAILED", NOT_NEEDED)
        else:
            self.site.at(now + _LOOK_S, lambda: self.seek(job))

    def of(self, job: Job) -> SlotLease | None:
        """The slot that the job holds."""
        held = (slot for slot in self.slots if slot.job is job and slot.goodbye is None)
        return next(held, None)

    def end(self, number: int, term: int, reason: str) -> None:
        """End a term, as its holder or with proof."""
        slot = self.slots[number]
        if slot.term == term and slot.goodbye is None:
            slot.goodbye = reason

    def views(self) -> tuple[SlotView, ...]:
        """The leases as the controller reads them."""
        return tuple(
            SlotView(
                number,
                slot.term,
                slot.job.token,
                slot.goodbye,
                checkpoint_term=slot.checkpoint_term,
                release=slot.release,
                silent_s=slot.silent_s(self.site.now),
            )
            for number, slot in enumerate(self.slots)
            if slot.job is not None
        )
