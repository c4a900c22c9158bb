"""Pure: what one look at the queue and at the leases says about each attempt, as ledger entries.

Absence is evidence only in complete listings: an attempt is gone after two of them far enough
apart, or after one when its own goodbye stands on disk. An intent that never showed up is
rejected by the same rule, which is how a submission that timed out is settled without a twin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from Daddy.cluster.orchestrator.history import Entry
from Daddy.cluster.orchestrator.records import (
    Attempt,
    Chaining,
    JobState,
    Ledger,
    Outcome,
    Phase,
    Policy,
    QueueJob,
    SlotView,
    Snapshot,
)

_BY_EXIT_CODE = {
    0: Outcome.DONE,
    10: Outcome.DRAINED,
    11: Outcome.NOT_NEEDED,
    2: Outcome.REFUSED,
    3: Outcome.REFUSED,
    7: Outcome.REFUSED,
    93: Outcome.REFUSED,
}
"""Exit codes of a learner (``core.errors``) that say more than success or failure."""

_BY_WORD = {
    "TIMEOUT": Outcome.DRAINED,
    "PREEMPTED": Outcome.DRAINED,
    "CANCELLED": Outcome.CANCELLED,
    "NODE_FAIL": Outcome.LOST,
    "LOST": Outcome.LOST,
}
"""Scheduler's words that say more than the exit code does."""


def reconcile(
    ledger: Ledger,
    snapshot: Snapshot,
    slots: Sequence[SlotView],
    policy: Policy,
    now: float,
) -> tuple[Entry, ...]:
    """Facts to append to the ledger, in order."""
    rows = {job.token: job for job in snapshot.jobs}
    leases = {view.token: view for view in slots}
    entries: list[Entry] = []
    for attempt in ledger.live:
        row, view = rows.get(attempt.token), leases.get(attempt.token)
        if row is None:
            entries += _from_lease(attempt, view, now)
            entries += _missing(attempt, view, snapshot, policy, now)
        elif row.state is JobState.PENDING:
            entries += _queued(attempt, row, now)
        else:
            entries += _begun(attempt, row, now)
            entries += _from_lease(attempt, view, now)
            if row.state is JobState.ENDED:
                entries.append(_end(attempt, row, view, now))
    entries += _adopt(ledger, snapshot, now)
    entries += _orphans(ledger, slots, entries, now)
    entries += _learn(ledger, snapshot, policy, entries, now)
    return tuple(entries)


def _from_lease(attempt: Attempt, view: SlotView | None, now: float) -> Iterator[Entry]:
    if view is None:
        return
    if (attempt.slot, attempt.term) != (view.slot, view.term):
        yield Entry("claimed", now, attempt.token, {"slot": view.slot, "term": view.term})
    if attempt.progressed_ts is None and view.checkpoint_term == view.term:
        data = {"checkpoint_step": view.checkpoint_step}
        yield Entry("progressed", now, attempt.token, data)
    if view.goodbye is not None and not attempt.left:
        yield Entry("left", now, attempt.token, {"reason": view.goodbye})


def _seen(attempt: Attempt, row: QueueJob, now: float) -> Iterator[Entry]:
    if attempt.job_id != row.job_id or attempt.phase is Phase.INTENT:
        yield Entry("submitted", now, attempt.token, {"job_id": row.job_id, "adopted": True})
    elif attempt.absences:
        yield Entry("present", now, attempt.token)


def _queued(attempt: Attempt, row: QueueJob, now: float) -> Iterator[Entry]:
    yield from _seen(attempt, row, now)
    if attempt.phase is Phase.RUNNING:
        yield Entry("requeued", now, attempt.token, {"reason": row.why})


def _begun(attempt: Attempt, row: QueueJob, now: float) -> Iterator[Entry]:
    yield from _seen(attempt, row, now)
    ran = row.state is JobState.RUNNING or bool(row.node)
    if ran and attempt.started_ts is None:
        data = {"started_ts": row.started_ts or now, "node": row.node}
        yield Entry("started", now, attempt.token, data)


def _end(attempt: Attempt, row: QueueJob, view: SlotView | None, now: float) -> Entry:
    outcome = _outcome(attempt, row.exit_code, row.word)
    goodbye = view.goodbye if view is not None else attempt.reason
    said = f"exit code {row.exit_code}" if row.exit_code else row.word.lower()
    data: dict[str, object] = {"outcome": outcome.value, "reason": goodbye or said}
    if row.exit_code is not None:
        data["exit_code"] = row.exit_code
    return Entry("ended", now, attempt.token, data)


def _outcome(attempt: Attempt, exit_code: int | None, word: str) -> Outcome:
    named = _BY_WORD.get((word.split() or [""])[0].rstrip("+"))
    if named is not None:
        return named
    if exit_code in _BY_EXIT_CODE:
        return _BY_EXIT_CODE[exit_code]
    if exit_code is None and word.startswith("COMPLETED"):
        return Outcome.DONE
    return Outcome.CRASHED if attempt.cancelled_ts is None else Outcome.CANCELLED


def _missing(
    attempt: Attempt, view: SlotView | None, snapshot: Snapshot, policy: Policy, now: float
) -> Iterator[Entry]:
    if snapshot.begun_ts <= attempt.intended_ts:
        return
    gone = view is not None and (view.goodbye is not None or view.holder_alive is False)
    if attempt.absences == 0 and not gone:
        yield Entry("absent", now, attempt.token)
    elif gone or now - attempt.absent_ts >= policy.absence_gap_s:
        yield _gone(attempt, view, now)


def _gone(attempt: Attempt, view: SlotView | None, now: float) -> Entry:
    if attempt.phase is Phase.INTENT:
        return Entry("rejected", now, attempt.token, {"reason": "it never came to the queue"})
    goodbye = view.goodbye if view is not None else None
    if goodbye is not None:
        data = {"outcome": _from_goodbye(goodbye).value, "reason": goodbye}
    elif attempt.cancelled_ts is not None:
        data = {"outcome": Outcome.CANCELLED.value, "reason": "cancelled by the controller"}
    else:
        data = {"outcome": Outcome.LOST.value, "reason": "gone from two listings"}
    return Entry("ended", now, attempt.token, data)


def _from_goodbye(goodbye: str) -> Outcome:
    return Outcome.DONE if goodbye.startswith("total_steps") else Outcome.DRAINED


def _adopt(ledger: Ledger, snapshot: Snapshot, now: float) -> Iterator[Entry]:
    """Jobs with our run's mark that the ledger lost, or had given up before they came."""
    known = {attempt.token: attempt for attempt in ledger.attempts}
    number = ledger.next_number
    for job in snapshot.jobs:
        attempt = known.get(job.token)
        if job.state is JobState.ENDED or (attempt is not None and attempt.live):
            continue
        if attempt is None:
            yield Entry("intent", now, job.token, {"number": number, "adopted": True})
            number += 1
        yield Entry("submitted", now, job.token, {"job_id": job.job_id, "adopted": True})


def _orphans(
    ledger: Ledger, slots: Sequence[SlotView], entries: Sequence[Entry], now: float
) -> Iterator[Entry]:
    """Terms that go on without their holder. Somebody's learner that we never started is let be."""
    ended = {one.token for one in entries if one.kind in ("ended", "rejected", "requeued")}
    adopted = {one.token for one in entries if one.kind == "submitted"}
    live = ({one.token for one in ledger.live} | adopted) - ended
    known = {one.token for one in ledger.attempts}
    noted = {(one.slot, one.term) for one in ledger.orphans}
    for view in slots:
        gone = view.token not in live and view.holder_alive is not True
        proven = view.token in known or view.holder_alive is False
        if view.goodbye is None and gone and proven and (view.slot, view.term) not in noted:
            reason = f"its job is gone ({view.token})"
            data = {"slot": view.slot, "term": view.term, "reason": reason}
            yield Entry("orphaned", now, view.token, data)


def _learn(
    ledger: Ledger, snapshot: Snapshot, policy: Policy, entries: Sequence[Entry], now: float
) -> Iterator[Entry]:
    """A surplus successor that started while every slot ran: the site does not hold them back."""
    if (ledger.chaining or policy.chaining) is not Chaining.POOL:
        return
    surplus = any(entry.data.get("outcome") == Outcome.NOT_NEEDED.value for entry in entries)
    holders = {attempt.token for attempt in ledger.attempts if attempt.training}
    running = {job.token for job in snapshot.jobs if job.state is JobState.RUNNING}
    if surplus and len(holders & running) >= policy.max_running:
        why = "a successor started while every slot was running"
        yield Entry("learnt", now, data={"chaining": Chaining.CHAIN.value, "why": why})
