"""Pure: what the ledger's entries mean. Replaying all of them gives the ledger, in any life.

Entries are facts in the order they were written: ``intent`` comes before the scheduler is asked,
everything else after something was seen or done. An entry this code does not know is passed over,
so that a newer ledger can still be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from Daddy.cluster.orchestrator.records import (
    Attempt,
    Chaining,
    Ledger,
    Orphan,
    Outcome,
    Phase,
)

_KEPT = 500
"""Attempts kept in mind: three weeks of four slots; the file keeps all."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger; ``token`` is empty where no attempt is meant; ``ts`` wall seconds."""

    kind: str
    ts: float
    token: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


def _submitted(attempt: Attempt, entry: Entry) -> Attempt:
    """Also a job that showed up after it had been given up: the late answer counts."""
    early = attempt.phase in (Phase.INTENT, Phase.REJECTED, Phase.ENDED)
    phase = Phase.SUBMITTED if early else attempt.phase
    return replace(
        attempt,
        job_id=int(entry.data["job_id"]),
        phase=phase,
        absences=0,
        ended_ts=None,
        outcome=None,
    )


def _rejected(attempt: Attempt, entry: Entry) -> Attempt:
    why = str(entry.data.get("reason", ""))
    return replace(attempt, phase=Phase.REJECTED, ended_ts=entry.ts, reason=why)


def _started(attempt: Attempt, entry: Entry) -> Attempt:
    began = float(entry.data.get("started_ts") or entry.ts)
    return replace(attempt, phase=Phase.RUNNING, started_ts=began)


def _requeued(attempt: Attempt, _entry: Entry) -> Attempt:
    return replace(
        attempt, phase=Phase.SUBMITTED, started_ts=None, slot=None, term=None, left=False
    )


def _claimed(attempt: Attempt, entry: Entry) -> Attempt:
    slot, term = int(entry.data["slot"]), int(entry.data["term"])
    return replace(attempt, slot=slot, term=term, left=False)


def _ended(attempt: Attempt, entry: Entry) -> Attempt:
    outcome = Outcome(entry.data["outcome"])
    why = str(entry.data.get("reason", ""))
    return replace(attempt, phase=Phase.ENDED, ended_ts=entry.ts, outcome=outcome, reason=why)


_ABOUT_ATTEMPTS: Mapping[str, Callable[[Attempt, Entry], Attempt]] = {
    "submitted": _submitted,
    "rejected": _rejected,
    "started": _started,
    "requeued": _requeued,
    "claimed": _claimed,
    "ended": _ended,
    "left": lambda attempt, entry: replace(
        attempt, left=True, reason=str(entry.data.get("reason", ""))
    ),
    "progressed": lambda attempt, entry: replace(attempt, progressed_ts=entry.ts),
    "absent": lambda attempt, entry: replace(
        attempt, absences=attempt.absences + 1, absent_ts=entry.ts
    ),
    "present": lambda attempt, _: replace(attempt, absences=0),
    "signalled": lambda attempt, entry: replace(attempt, signalled_ts=entry.ts),
    "cancelled": lambda attempt, entry: replace(attempt, cancelled_ts=entry.ts),
}


def _new_attempt(entry: Entry) -> Attempt:
    data = entry.data
    return Attempt(
        token=entry.token,
        number=int(data["number"]),
        phase=Phase.INTENT,
        intended_ts=entry.ts,
        job_id=data.get("job_id"),
        after=data.get("after"),
        release=str(data.get("release", "")),
    )


def fold(ledger: Ledger, entry: Entry) -> Ledger:
    """The ledger after one more entry."""
    about_run = _ABOUT_RUN.get(entry.kind)
    if about_run is not None:
        return about_run(ledger, entry)
    change = _ABOUT_ATTEMPTS.get(entry.kind)
    if change is None:
        return ledger
    attempts = tuple(
        change(attempt, entry) if attempt.token == entry.token else attempt
        for attempt in ledger.attempts
    )
    return replace(ledger, attempts=attempts)


def _intent(ledger: Ledger, entry: Entry) -> Ledger:
    if any(attempt.token == entry.token for attempt in ledger.attempts):
        return ledger
    surplus = max(0, len(ledger.attempts) - _KEPT)
    over = [one.token for one in ledger.attempts if not one.live][:surplus]
    kept = (one for one in ledger.attempts if one.token not in over)
    return replace(ledger, attempts=(*kept, _new_attempt(entry)))


def _orphaned(ledger: Ledger, entry: Entry) -> Ledger:
    data = entry.data
    orphan = Orphan(int(data["slot"]), int(data["term"]), str(data.get("reason", "")))
    return replace(ledger, orphans=(*ledger.orphans, orphan))


def _freed(ledger: Ledger, entry: Entry) -> Ledger:
    place = (entry.data["slot"], entry.data["term"])
    orphans = tuple(one for one in ledger.orphans if (one.slot, one.term) != place)
    return replace(ledger, orphans=orphans)


_ABOUT_RUN: Mapping[str, Callable[[Ledger, Entry], Ledger]] = {
    "intent": _intent,
    "orphaned": _orphaned,
    "freed": _freed,
    "start": lambda ledger, entry: replace(ledger, started_ts=entry.ts),
    "learnt": lambda ledger, entry: replace(ledger, chaining=Chaining(entry.data["chaining"])),
}


def replay(entries: Iterable[Entry]) -> Ledger:
    """The ledger that these entries tell."""
    ledger = Ledger()
    for entry in entries:
        ledger = fold(ledger, entry)
    return ledger
