"""Pure. One pass as a plain record, which ``status`` shows without a controller or a scheduler.

Format: ``controller/status.json``, version 2 (``docs/formats.md``). Stamps are wall seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from Daddy.cluster.orchestrator.actions import Plan
from Daddy.cluster.orchestrator.control_parameters import Policy
from Daddy.cluster.orchestrator.decisions.capacity import choose_chaining
from Daddy.cluster.orchestrator.decisions.circuit_breaker import Hold, holds
from Daddy.cluster.orchestrator.decisions.node_exclusion import excluded
from Daddy.cluster.orchestrator.decisions.release_rollout import rollout
from Daddy.cluster.orchestrator.history import trained
from Daddy.cluster.orchestrator.records import (
    SUMMARY_VERSION,
    Attempt,
    Intent,
    JobState,
    Ledger,
    Observation,
    QueueJob,
    SlotView,
    Snapshot,
    Waits,
)

_LAST = 5
_FOR_EVER_S = 30 * 86_400.0
"""A hold that is longer waits for the person, not for time."""

Rows = Mapping[str, QueueJob]


def summarise(
    intent: Intent | None,
    ledger: Ledger,
    snapshot: Observation,
    slots: Sequence[SlotView],
    decided: Plan | None,
    policy: Policy,
    now: float,
) -> dict[str, Any]:
    """Slots, queue, rules, reasons and the last ends, ready for JSON."""
    rows = {job.token: job for job in snapshot.jobs} if isinstance(snapshot, Snapshot) else {}
    count = intent.slots if intent is not None else len(slots)
    ends = sorted(ledger.over, key=lambda one: one.ended_ts or 0.0)[-_LAST:]
    return {
        "v": SUMMARY_VERSION,
        "ts": round(now, 3),
        "mode": intent.mode.value if intent else None,
        "why": intent.reason if intent else None,
        "executor": intent.executor if intent else None,
        "game": intent.game if intent else None,
        "release": intent.release if intent else None,
        "daemon": intent.daemon if intent else True,
        **_rules(intent, ledger, policy, now),
        "queue": _queue(snapshot),
        "slots": [_slot(number, ledger, slots, rows) for number in range(count)],
        "waiting": [_waiting(one, rows.get(one.token)) for one in _in_line(ledger, rows)],
        "reasons": list(decided.reasons) if decided is not None else [],
        "wake_ts": round(decided.wake_at, 3) if decided is not None else None,
        "last": [_end(one) for one in ends],
        "attempts": ledger.next_number - 1,
        "used_s": round(ledger.used_s, 1),
        **trained(ledger, now),
    }


def _rules(intent: Intent | None, ledger: Ledger, policy: Policy, now: float) -> dict[str, Any]:
    """Decisions that hold beyond this pass: chaining, breaker, nodes, releases."""
    chaining, how = choose_chaining(ledger.site, policy)
    rolling = rollout(intent.desired, ledger) if intent is not None else None
    given_up = rolling.given_up if rolling is not None else frozenset()
    return {
        "chaining": {"mode": chaining.value, "how": how},
        "breaker": [_hold(one, now) for one in holds(ledger, policy, now, given_up)],
        "excluded": list(excluded(ledger, now)),
        "rollout": rolling.reason if rolling is not None else "",
    }


def _hold(hold: Hold, now: float) -> dict[str, Any]:
    return {
        "slot": hold.slot,
        "until_ts": round(hold.until, 3) if hold.until - now < _FOR_EVER_S else None,
        "failures": hold.failures,
        "open": hold.open,
        "reason": hold.reason,
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
        "others": snapshot.others_live,
        "maintenance_ts": snapshot.maintenance_ts,
    }


def _slot(number: int, ledger: Ledger, slots: Sequence[SlotView], rows: Rows) -> dict[str, Any]:
    view = next((one for one in slots if one.slot == number), SlotView(number, 0, ""))
    holder = next((one for one in ledger.live if one.slot == number and one.training), None)
    row = rows.get(holder.token) if holder is not None else None
    return {
        "slot": number,
        "training": holder is not None and (row is None or row.state is JobState.RUNNING),
        "token": holder.token if holder else None,
        "job_id": holder.job_id if holder else None,
        "release": holder.release if holder else None,
        "started_ts": holder.started_ts if holder else None,
        "leaving": holder is not None and holder.requests.signalled_ts is not None,
        "progressed": holder is not None and holder.progressed_ts is not None,
        "node": row.node if row else None,
        "word": row.word if row else None,
        "ends_ts": row.ends_ts if row else None,
        "term": view.term,
        "checkpoint_term": view.checkpoint_term,
        "checkpoint_step": view.checkpoint_step,
        "silent_s": round(view.silent_s, 1),
    }


def _in_line(ledger: Ledger, rows: Rows) -> list[Attempt]:
    """Attempts without a slot: what starts, what only waits for a place, then by expectation."""

    def place(attempt: Attempt) -> tuple[int, float, int]:
        row = rows.get(attempt.token)
        if row is None:
            return (3, 0.0, attempt.number)
        rank = 0 if row.state is JobState.RUNNING else 1 if row.waits is Waits.CAP else 2
        expected = float("inf") if row.expected_ts is None else row.expected_ts
        return (rank, expected, attempt.number)

    return sorted((one for one in ledger.live if one.slot is None), key=place)


def _waiting(attempt: Attempt, row: QueueJob | None) -> dict[str, Any]:
    return {
        "token": attempt.token,
        "job_id": attempt.job_id,
        "after": attempt.after,
        "held": attempt.requests.held,
        "state": row.state.value if row else "unseen",
        "why": row.why if row else "the scheduler has not shown it yet",
        "waits": row.waits.value if row else None,
        "expected_ts": row.expected_ts if row else None,
    }


def _end(attempt: Attempt) -> dict[str, Any]:
    return {
        "ts": attempt.ended_ts,
        "number": attempt.number,
        "job_id": attempt.job_id,
        "slot": attempt.slot,
        "outcome": (attempt.outcome or attempt.phase).value,
        "reason": attempt.reason,
    }
