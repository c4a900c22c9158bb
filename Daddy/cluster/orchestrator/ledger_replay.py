"""Pure. Rebuilds the ledger's attempts and site limits by replaying its entries.

Entries are facts in the order written: ``intent`` is written before the scheduler is called, every
other kind after an event was read or an action succeeded. Entries of unknown kinds are skipped, so
that this code can read a ledger of a newer release.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from typing import Any

from Daddy.cluster.orchestrator.controller_types import (
    Attempt,
    JobOutcome,
    Ledger,
    Orphan,
    Phase,
    RequestedChanges,
    SiteLimits,
)

_KEPT = 250
"""Most attempts kept in memory: nine days of four slots; the file keeps all."""
_SLOW_KEPT = 16
_WINDOW_S = 86_400.0
_Change = Callable[[Attempt, "LedgerEntry"], Attempt]


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """Holds one line of the ledger; ``ts`` in wall seconds; ``token``: its attempt, or empty."""

    kind: str
    ts: float
    token: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


def _submitted(attempt: Attempt, entry: LedgerEntry) -> Attempt:
    """Return the attempt with its job id; reopen one that was rejected as never queued."""
    running = attempt.phase is Phase.RUNNING
    attempt = _with_facts(attempt, absences=0, answered_ts=attempt.observed.answered_ts or entry.ts)
    return replace(
        attempt,
        job_id=int(entry.data["job_id"]),
        phase=Phase.RUNNING if running else Phase.SUBMITTED,
        ended_ts=None,
        outcome=None,
        reason="",
    )


def _started(attempt: Attempt, entry: LedgerEntry) -> Attempt:
    began = float(entry.data.get("started_ts") or entry.ts)
    node = str(entry.data.get("node", ""))
    ends_ts = entry.data.get("ends_ts")
    return replace(attempt, phase=Phase.RUNNING, started_ts=began, ends_ts=ends_ts, node=node)


_NO_SLOT: Mapping[str, Any] = {"slot": None, "term": None, "claimed_ts": None, "left_ts": None}


def _requeued(attempt: Attempt, entry: LedgerEntry) -> Attempt:
    restarts = int(entry.data.get("restarts", attempt.observed.restarts + 1))
    attempt = _with_facts(attempt, restarts=restarts, silent_ts=None)
    return replace(attempt, phase=Phase.SUBMITTED, started_ts=None, **_NO_SLOT)


def _claimed(attempt: Attempt, entry: LedgerEntry) -> Attempt:
    return replace(
        attempt,
        slot=int(entry.data["slot"]),
        term=int(entry.data["term"]),
        release=str(entry.data.get("release") or attempt.release),
        claimed_ts=entry.ts,
        left_ts=None,
        progressed_ts=None,
    )


def _ended(attempt: Attempt, entry: LedgerEntry) -> Attempt:
    """Return the attempt as rejected or ended, with reason, outcome and canceller."""
    data = entry.data
    attempt = replace(attempt, ended_ts=entry.ts, reason=str(data.get("reason", "")))
    if entry.kind == "rejected":
        return replace(attempt, phase=Phase.REJECTED)
    outcome, canceller = JobOutcome(data["outcome"]), data.get("canceller")
    return replace(attempt, phase=Phase.ENDED, outcome=outcome, canceller=canceller)


def _amended(attempt: Attempt, entry: LedgerEntry) -> Attempt:
    data, before = entry.data, attempt.requests
    return _requested(
        attempt,
        held=bool(data.get("hold", before.held)),
        released_ts=entry.ts if data.get("hold") is False else before.released_ts,
        excluded=tuple(data.get("exclude", before.excluded) or ()),
        limit_s=data.get("limit_s", before.limit_s),
    )


def _requested(attempt: Attempt, **requests: Any) -> Attempt:
    return replace(attempt, requests=replace(attempt.requests, **requests))


def _with_facts(attempt: Attempt, **facts: Any) -> Attempt:
    return replace(attempt, observed=replace(attempt.observed, **facts))


_ABOUT_ATTEMPTS: Mapping[str, _Change] = {
    "submitted": _submitted,
    "answered": lambda attempt, entry: _with_facts(attempt, answered_ts=entry.ts),
    "unanswered": lambda attempt, entry: replace(
        _with_facts(attempt, answered_ts=entry.ts), reason=str(entry.data.get("reason", ""))
    ),
    "rejected": _ended,
    "started": _started,
    "requeued": _requeued,
    "claimed": _claimed,
    "ended": _ended,
    "amended": _amended,
    "left": lambda attempt, entry: replace(
        attempt, left_ts=entry.ts, reason=str(entry.data.get("reason", ""))
    ),
    "progressed": lambda attempt, entry: replace(attempt, progressed_ts=entry.ts),
    "absent": lambda attempt, entry: _with_facts(
        attempt,
        absences=attempt.observed.absences + 1,
        absent_ts=entry.ts,
        absent_beat=entry.data.get("beat"),
    ),
    "present": lambda attempt, _: _with_facts(attempt, absences=0),
    "silent": lambda attempt, entry: _with_facts(attempt, silent_ts=entry.ts),
    "stirred": lambda attempt, _: _with_facts(attempt, silent_ts=None),
    "signalled": lambda attempt, entry: _requested(attempt, signalled_ts=entry.ts),
    "dismissed": lambda attempt, _: _requested(attempt, dismissed=True),
    "cancelled": lambda attempt, entry: _requested(attempt, cancelled_ts=entry.ts, dismissed=True),
    "canceller": lambda attempt, entry: replace(attempt, canceller=entry.data["canceller"]),
}


def _new_attempt(entry: LedgerEntry) -> Attempt:
    data = entry.data
    return Attempt(
        token=entry.token,
        number=int(data["number"]),
        phase=Phase.INTENT,
        intended_ts=entry.ts,
        job_id=data.get("job_id"),
        after=data.get("after"),
        release=str(data.get("release", "")),
        requests=RequestedChanges(excluded=tuple(data.get("exclude", ()))),
    )


def fold(ledger: Ledger, *entries: LedgerEntry) -> Ledger:
    """Return the ledger with ``entries`` applied in order."""
    attempts, run = {attempt.token: attempt for attempt in ledger.attempts}, ledger
    for entry in entries:
        before = attempts.get(entry.token)
        if entry.kind == "intent" and before is None:
            _drop_oldest(attempts)
            attempts[entry.token] = _new_attempt(entry)
        elif (about_run := _ABOUT_RUN.get(entry.kind)) is not None:
            run = about_run(run, entry)
        elif before is not None and (change := _ABOUT_ATTEMPTS.get(entry.kind)) is not None:
            attempts[entry.token] = change(before, entry)
            run = _update_totals(run, before, entry)
    return replace(run, attempts=tuple(attempts.values()))


def _update_totals(ledger: Ledger, attempt: Attempt, entry: LedgerEntry) -> Ledger:
    """Return the ledger with its totals updated by ``entry``; ``attempt``: as it was before."""
    release, proven = attempt.release, ledger.proven
    if entry.kind == "progressed" and release and proven[-1:] != (release,):
        older = tuple(name for name in proven if name != release)
        return replace(ledger, proven=(*older, release))
    if entry.kind == "ended" and attempt.started_ts is not None:
        return replace(ledger, used_s=ledger.used_s + max(0.0, entry.ts - attempt.started_ts))
    if entry.kind == "claimed" and entry.data.get("slow"):
        return replace(ledger, slow_claims=(*ledger.slow_claims, entry.ts)[-_SLOW_KEPT:])
    return ledger


def _drop_oldest(attempts: dict[str, Attempt]) -> None:
    """Remove the oldest ended attempts beyond ``_KEPT``."""
    surplus = max(0, len(attempts) - _KEPT)
    ended = (token for token, attempt in attempts.items() if not attempt.live)
    for token in list(islice(ended, surplus)):
        del attempts[token]


def _orphaned(ledger: Ledger, entry: LedgerEntry) -> Ledger:
    data = entry.data
    orphan = Orphan(int(data["slot"]), int(data["term"]), str(data.get("reason", "")))
    return replace(ledger, orphans=(*ledger.orphans, orphan))


def _freed(ledger: Ledger, entry: LedgerEntry) -> Ledger:
    freed = (entry.data["slot"], entry.data["term"])
    orphans = tuple(held for held in ledger.orphans if (held.slot, held.term) != freed)
    return replace(ledger, orphans=orphans)


def _learnt(ledger: Ledger, entry: LedgerEntry) -> Ledger:
    names = {limit.name for limit in fields(SiteLimits)}
    facts = {name: value for name, value in entry.data.get("site", {}).items() if name in names}
    return replace(ledger, site=replace(ledger.site, **facts))


def _restarted(ledger: Ledger, entry: LedgerEntry) -> Ledger:
    start_typed_ts = float(entry.data.get("asked", entry.ts))
    return replace(ledger, start_seen_ts=entry.ts, start_typed_ts=start_typed_ts, noticed={})


_ABOUT_RUN: Mapping[str, Callable[[Ledger, LedgerEntry], Ledger]] = {
    "orphaned": _orphaned,
    "freed": _freed,
    "start": _restarted,
    "learnt": _learnt,
    "room": lambda ledger, entry: replace(ledger, room_ts=entry.ts),
    "noticed": lambda ledger, entry: replace(
        ledger, noticed={**ledger.noticed, str(entry.data["notice"]): entry.ts}
    ),
}


def replay(entries: Iterable[LedgerEntry]) -> Ledger:
    """Return the ledger that results from all ``entries``."""
    return fold(Ledger(), *entries)


def measure_training(ledger: Ledger, slots: int, now: float) -> dict[str, float]:
    """Return ``trained_s``, seconds that the slots were held, of the last ``window_s`` (a day)."""
    first = min((attempt.intended_ts for attempt in ledger.attempts), default=now)
    since = max(first, now - _WINDOW_S)
    shown = (attempt for attempt in ledger.attempts if (attempt.slot or 0) < slots)
    held = sum(_held_s(attempt, since, now) for attempt in shown)
    return {"trained_s": round(held, 1), "window_s": round(max(0.0, now - since), 1)}


def _held_s(attempt: Attempt, since: float, now: float) -> float:
    if attempt.claimed_ts is None:
        return 0.0
    end = min(stamp for stamp in (attempt.left_ts, attempt.ended_ts, now) if stamp is not None)
    return max(0.0, end - max(attempt.claimed_ts, since))
