"""Pure: one pass as a plain record: what ``status`` shows without a controller or a scheduler.

Format: ``controller/status.json``, version 1 (``docs/formats.md``). Stamps are wall seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from Daddy.cluster.orchestrator.records import (
    Attempt,
    JobState,
    Ledger,
    Observation,
    QueueJob,
    SlotView,
    Snapshot,
)

if TYPE_CHECKING:
    from Daddy.cluster.orchestrator.intent import Intent

VERSION = 1
_LAST = 5


def summarise(
    intent: Intent | None,
    ledger: Ledger,
    snapshot: Observation,
    slots: Sequence[SlotView],
    reasons: Sequence[str],
    now: float,
) -> dict[str, Any]:
    """Slots, queue, reasons and the last ends, ready for JSON."""
    rows = {job.token: job for job in snapshot.jobs} if isinstance(snapshot, Snapshot) else {}
    count = intent.slots if intent is not None else len(slots)
    return {
        "v": VERSION,
        "ts": round(now, 3),
        "mode": intent.mode.value if intent is not None else None,
        "executor": intent.executor if intent is not None else None,
        "game": intent.game if intent is not None else None,
        "release": intent.release if intent is not None else None,
        "chaining": ledger.chaining.value if ledger.chaining is not None else None,
        "queue": _queue(snapshot),
        "slots": [_slot(number, ledger, slots, rows) for number in range(count)],
        "waiting": [_waiting(one, rows.get(one.token)) for one in ledger.live if one.slot is None],
        "reasons": list(reasons),
        "last": [_last(one) for one in _newest_ends(ledger)],
        "attempts": ledger.next_number - 1,
    }


def _queue(snapshot: Observation) -> dict[str, Any]:
    if not isinstance(snapshot, Snapshot):
        return {"known": False, "ts": round(snapshot.begun_ts, 3), "why": snapshot.why}
    states = [job.state for job in snapshot.jobs]
    return {
        "known": True,
        "ts": round(snapshot.begun_ts, 3),
        "running": states.count(JobState.RUNNING),
        "pending": states.count(JobState.PENDING),
        "strangers": snapshot.strangers,
    }


def _slot(
    number: int, ledger: Ledger, slots: Sequence[SlotView], rows: dict[str, QueueJob]
) -> dict[str, Any]:
    view = next((one for one in slots if one.slot == number), None)
    holder = next((one for one in ledger.live if one.slot == number and one.training), None)
    row = rows.get(holder.token) if holder is not None else None
    return {
        "slot": number,
        "training": holder is not None and (row is None or row.state is JobState.RUNNING),
        "token": holder.token if holder is not None else None,
        "job_id": holder.job_id if holder is not None else None,
        "node": row.node if row is not None else None,
        "ends_ts": row.ends_ts if row is not None else None,
        "term": view.term if view is not None else 0,
        "checkpoint_step": view.checkpoint_step if view is not None else 0,
    }


def _waiting(attempt: Attempt, row: QueueJob | None) -> dict[str, Any]:
    return {
        "token": attempt.token,
        "job_id": attempt.job_id,
        "state": row.state.value if row is not None else "unseen",
        "why": row.why if row is not None else "the scheduler has not shown it yet",
    }


def _newest_ends(ledger: Ledger) -> list[Attempt]:
    ended = [one for one in ledger.attempts if not one.live]
    return sorted(ended, key=lambda one: one.ended_ts or 0.0)[-_LAST:]


def _last(attempt: Attempt) -> dict[str, Any]:
    return {
        "ts": attempt.ended_ts,
        "number": attempt.number,
        "job_id": attempt.job_id,
        "slot": attempt.slot,
        "outcome": attempt.outcome.value if attempt.outcome is not None else attempt.phase.value,
        "reason": attempt.reason,
    }
