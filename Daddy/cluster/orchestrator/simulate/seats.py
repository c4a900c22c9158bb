"""The slots' leases as the simulated jobs claim them, and as the controller reads them.

The rules are those of ``core.seat``: a job takes a slot that the orders name and whose term has
ended; it waits while a holder leaves or is silent, ends the term of one that was silent for two
minutes, and goes (exit code 11) when every slot is filled by somebody who means to stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from Daddy.cluster.orchestrator.actions import Orders
from Daddy.cluster.orchestrator.records import SlotView
from Daddy.cluster.orchestrator.simulate.jobs import NOT_NEEDED, Job, Stage
from Daddy.cluster.orchestrator.simulate.site import Site
from Daddy.core.seat import PATIENCE_S

_SILENCE_S = 120.0
_LOOK_S = 2.0
_SILENT = (Stage.HUNG, Stage.DEAD, Stage.ENDED)


@dataclass(slots=True)
class Seat:
    """A slot's newest term."""

    term: int = 0
    job: Job | None = None
    goodbye: str | None = "never held"
    release: str = ""
    checkpoint_term: int = 0

    def silent_s(self, now: float) -> float:
        """How long the holder has given no sign of life."""
        job = self.job
        if job is None or job.stage not in _SILENT:
            return 0.0
        return now - (job.ended if job.silent_from is None else job.silent_from)


class Seats:
    """All slots of the run. ``claimed`` is called when one is taken."""

    def __init__(self, site: Site, count: int, claimed: Callable[[Job, Seat], None]) -> None:
        self.site = site
        self.seats = [Seat() for _ in range(count)]
        self.orders = Orders()
        self._claimed = claimed

    def seek(self, job: Job) -> None:
        """The job looks for a slot, and again every two seconds while that may help."""
        if not job.running:
            return
        now, waited = self.site.now, self.site.now - job.started
        wanted = [slot for slot in sorted(self.orders.slots) if slot < len(self.seats)]
        for slot in wanted:
            self._bury(self.seats[slot], waited)
            if self.seats[slot].goodbye is not None:
                self._claim(job, slot)
                return
        hope = any(not self._stays(self.seats[slot]) for slot in wanted)
        if waited >= PATIENCE_S or (waited > 0 and not hope):
            self.site.end(job, "FAILED", NOT_NEEDED)
        else:
            self.site.at(now + _LOOK_S, lambda: self.seek(job))

    def _bury(self, seat: Seat, waited: float) -> None:
        """Silence counts on the newcomer's own clock."""
        if seat.goodbye is None and min(seat.silent_s(self.site.now), waited) >= _SILENCE_S:
            seat.goodbye = "no beat"

    def _stays(self, seat: Seat) -> bool:
        return seat.job is not None and seat.job.stage in (Stage.BOOTING, Stage.TRAINING)

    def _claim(self, job: Job, slot: int) -> None:
        seat = self.seats[slot]
        seat.term, seat.job, seat.goodbye = seat.term + 1, job, None
        seat.release = self.orders.slots[slot]
        job.track = slot
        self._claimed(job, seat)

    def of(self, job: Job) -> Seat | None:
        """The seat that the job holds."""
        return next((one for one in self.seats if one.job is job and one.goodbye is None), None)

    def end(self, slot: int, term: int, reason: str) -> None:
        """End a term, as its holder or with proof."""
        seat = self.seats[slot]
        if seat.term == term and seat.goodbye is None:
            seat.goodbye = reason

    def views(self) -> tuple[SlotView, ...]:
        """What the controller reads of them."""
        now, found = self.site.now, []
        for slot, seat in enumerate(self.seats):
            if seat.job is None:
                continue
            found.append(
                SlotView(
                    slot,
                    seat.term,
                    seat.job.token,
                    seat.goodbye,
                    checkpoint_term=seat.checkpoint_term,
                    release=seat.release,
                    silent_s=seat.silent_s(now),
                )
            )
        return tuple(found)
