"""Pure. Summarises one pass as a record that ``status`` shows without a controller or scheduler.

Format: ``controller/status.json``, version 2 (``docs/formats.md``). Times are wall seconds.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from Daddy.cluster.orchestrator.action_types import Plan
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import (
    SUMMARY_VERSION,
    Attempt,
    DesiredRun,
    JobState,
    Ledger,
    QueueJob,
    QueueReading,
    SlotView,
    Snapshot,
    WaitReason,
)
from Daddy.cluster.orchestrator.decisions.job_cap import choose_chaining, limit_to_open_slots
from Daddy.cluster.orchestrator.ledger_replay import measure_training

_LAST_ENDED = 5
_FOR_EVER_S = 30 * 86_400.0
"""A longer hold ends only with the person's next ``start``: no end time is shown."""

Rows = Mapping[str, QueueJob]


def summarise(
    intent: DesiredRun | None,
    ledger: Ledger,
    snapshot: QueueReading,
    slots: Sequence[SlotView],
    decided: Plan,
    policy: ControllerPolicy,
    now: float,
) -> dict[str, Any]:
    """Return slots, queue, decisions with reasons and the last ended attempts, ready for JSON."""
    rows = {job.token: job for job in snapshot.jobs} if isinstance(snapshot, Snapshot) else {}
    wanted = intent.open_slots if intent is not None else range(len(slots))
    slot_count = max(intent.slots if intent is not None else len(slots), ledger.slots_held)
    ended = sorted(ledger.ended_or_rejected, key=lambda attempt: attempt.ended_ts or 0.0)
    policy = limit_to_open_slots(policy, intent) if intent is not None else policy
    chaining, chaining_reason = choose_chaining(ledger.site, policy)
    return {
        "v": SUMMARY_VERSION,
        "ts": round(now, 3),
        "mode": intent.mode.value if intent else None,
        "why": intent.reason if intent else None,
        **_facts(intent, "executor", "game", "release"),
        "daemon": intent.daemon if intent else True,
        "chaining": {"mode": chaining.value, "how": chaining_reason},
        "breaker": [
            {
                **_facts(hold, "slot", "failures", "open", "reason"),
                "until_ts": round(hold.until, 3) if hold.until - now < _FOR_EVER_S else None,
            }
            for hold in decided.holds
        ],
        "excluded": list(decided.avoided),
        "rollout": decided.rollout,
        "queue": _queue(snapshot),
        "slots": [_slot(number, wanted, ledger, slots, rows) for number in range(slot_count)],
        "waiting": [_waiting(job, rows.get(job.token)) for job in _waiting_attempts(ledger, rows)],
        "unsubmitted": _describe_unanswered(ledger),
        "reasons": list(decided.reasons) if intent else [],
        "wake_ts": round(decided.wake_at, 3),
        "last": [_end(attempt) for attempt in ended[-_LAST_ENDED:]],
        "attempts": ledger.next_number - 1,
        "used_s": round(ledger.used_s, 1),
        **measure_training(ledger, slot_count, now),
    }


def _facts(record: object, *names: str) -> dict[str, Any]:
    """Return the named attributes of a record; each is None if ``record`` is."""
    return {name: getattr(record, name, None) for name in names}


def _queue(snapshot: QueueReading) -> dict[str, Any]:
    if not isinstance(snapshot, Snapshot):
        return {"known": False, "ts": round(snapshot.begun_ts, 3), "why": snapshot.error}
    ending = [job for job in snapshot.jobs if job.completing]
    states = [job.state for job in snapshot.jobs if not job.completing]
    other_runs = Counter(
        job.run_id for job in snapshot.others if job.run_id and job.state is JobState.RUNNING
    )
    return {
        "known": True,
        "ts": round(snapshot.begun_ts, 3),
        "running": states.count(JobState.RUNNING),
        "pending": states.count(JobState.PENDING),
        "ending": [_facts(job, "job_id", "node") for job in ending],
        "others": snapshot.others_live,
        "other_runs": dict(other_runs),
        "maintenance_ts": snapshot.maintenance_ts,
        "closed": snapshot.closed,
    }


def _slot(
    number: int, wanted: Sequence[int], ledger: Ledger, slots: Sequence[SlotView], rows: Rows
) -> dict[str, Any]:
    view = next((slot for slot in slots if slot.slot == number), SlotView(number, 0, ""))
    holders = (attempt for attempt in ledger.live if attempt.slot == number and attempt.training)
    holder = next(holders, None)
    row = rows.get(holder.token) if holder is not None else None
    return {
        **_facts(view, "slot", "term", "checkpoint_term", "checkpoint_step"),
        **_facts(holder, "token", "job_id", "release", "intended_ts", "started_ts"),
        **_facts(row, "node", "ends_ts"),
        "word": row.slurm_state if row else None,
        "training": holder is not None
        and (row is None or (row.state is JobState.RUNNING and not row.completing)),
        "surplus": number not in wanted,
        "leaving": holder is not None and holder.requests.signalled_ts is not None,
    }


def _describe_unanswered(ledger: Ledger) -> str:
    """Return the reason for which the newest two submissions made no job, "" if one did."""
    newest = (job for job in reversed(ledger.attempts) if job.intended_ts >= ledger.start_seen_ts)
    answered = (job for job in newest if job.observed.answered_ts or not job.live)
    reasons = [job.reason for job in islice(answered, 2) if job.job_id is None]
    return reasons[0] if len(reasons) > 1 else ""


def _waiting_attempts(ledger: Ledger, rows: Rows) -> list[Attempt]:
    """Return attempts without a slot: starting jobs, jobs at the cap, then by expected start."""

    def sort_key(attempt: Attempt) -> tuple[int, float, int]:
        row = rows.get(attempt.token)
        if row is None:
            return (3, 0.0, attempt.number)
        rank = 0 if row.state is JobState.RUNNING else 1 if row.wait_reason is WaitReason.CAP else 2
        expected = float("inf") if row.expected_ts is None else row.expected_ts
        return (rank, expected, attempt.number)

    return sorted((attempt for attempt in ledger.live if attempt.slot is None), key=sort_key)


def _waiting(attempt: Attempt, row: QueueJob | None) -> dict[str, Any]:
    return {
        **_facts(attempt, "token", "job_id", "after", "intended_ts"),
        "held": attempt.requests.held,
        "state": row.state.value if row else "unseen",
        "why": row.slurm_reason if row else "the scheduler has not shown it yet",
        "waits": row.wait_reason.value if row else None,
        "expected_ts": row.expected_ts if row else None,
    }


def _end(attempt: Attempt) -> dict[str, Any]:
    return {
        **_facts(attempt, "number", "job_id", "slot", "reason"),
        "ts": attempt.ended_ts,
        "outcome": (attempt.outcome or attempt.phase).value,
    }
