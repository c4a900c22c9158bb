"""What accounting is asked about the dead: how they ended, and who cancelled them.

A listing forgets jobs and never names a canceller. Accounting knows both, but may hear of an end
minutes later: it is asked again for a while, and the wait keeps nothing else up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from Daddy.cluster.orchestrator.history import Entry
from Daddy.cluster.orchestrator.records import Attempt, Ledger, Outcome, QueueJob, Snapshot
from Daddy.cluster.orchestrator.scheduler import JobRef, Scheduler

_LATE_S = 600.0
"""How long a database may lag behind before we stop asking."""


class Inquest:
    """Asks a scheduler's accounting; nothing is asked twice that was answered."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._answered: set[str] = set()

    def with_the_dead(self, ledger: Ledger, snapshot: Snapshot) -> Snapshot:
        """The listing, with those that have left it and those that somebody cancelled."""
        words = {job.token: job.word for job in snapshot.jobs}
        dead = self._ask(one for one in ledger.live if _unexplained(one, words.get(one.token)))
        return replace(snapshot, jobs=(*snapshot.jobs, *dead)) if dead else snapshot

    def cancellers(self, ledger: Ledger, now: float) -> tuple[Entry, ...]:
        """Who cancelled jobs that ended a while ago, as far as accounting knows by now."""
        told = self._ask(
            one
            for one in ledger.attempts
            if one.outcome is Outcome.CANCELLED
            and _unasked(one)
            and one.token not in self._answered
            and now - (one.ended_ts or 0.0) < _LATE_S
        )
        return tuple(
            Entry("canceller", now, job.token, {"canceller": job.canceller})
            for job in told
            if job.canceller is not None
        )

    def _ask(self, attempts: Iterable[Attempt]) -> tuple[QueueJob, ...]:
        jobs = [JobRef(one.job_id, one.token) for one in attempts if one.job_id is not None]
        told = self._scheduler.autopsy(jobs) if jobs else ()
        self._answered |= {job.token for job in told}
        return told


def _unexplained(attempt: Attempt, word: str | None) -> bool:
    """Whether it has left the listing, or is listed as cancelled by somebody."""
    if word is None:
        return attempt.observed.absences > 0
    return word.startswith("CANCELLED") and _unasked(attempt)


def _unasked(attempt: Attempt) -> bool:
    """Whether its end, if it was cancelled, was not our wish."""
    return not attempt.requests.dismissed
