"""Pure. One look at the queue and at the leases becomes facts about each attempt, for the ledger.

Absence is evidence only in complete listings: an attempt is gone after two of them far enough
apart, or after one when its own goodbye stands on disk. An intent that never showed up is
rejected by the same rule, which is how a submission that timed out is settled without a twin; a
listing counts for that only when it was begun after the submission had surely ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from Daddy.cluster.orchestrator.control_parameters import SILENCE_S, SLOW_CLAIM_S, Policy
from Daddy.cluster.orchestrator.history import Entry
from Daddy.cluster.orchestrator.records import (
    Attempt,
    JobState,
    Ledger,
    Outcome,
    Phase,
    QueueJob,
    SlotView,
    Snapshot,
    Waits,
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
    "NODE_FAIL": Outcome.NODE_FAILED,
    "BOOT_FAIL": Outcome.NODE_FAILED,
    "LOST": Outcome.LOST,
}
"""Scheduler's words that say more than the exit code does."""

_UNLAUNCHED = "JobLaunchFailure"
"""Slurm's reason for a job whose script it could not start, and for one whose script was killed."""


def reconcile(
    ledger: Ledger,
    snapshot: Snapshot,
    slots: Sequence[SlotView],
    policy: Policy,
    now: float,
) -> tuple[Entry, ...]:
    """Facts to append to the ledger, in order."""
    rows = _by_token(snapshot.jobs)
    unmarked = _unmarked(ledger, snapshot)
    leases = {view.token: view for view in slots}
    entries: list[Entry] = []
    strange_jobs, strange_holders = len(rows), len(leases)
    for attempt in ledger.live:
        row, view = rows.get(attempt.token), leases.get(attempt.token)
        strange_jobs -= row is not None
        strange_holders -= view is not None
        if row is None and attempt.job_id in unmarked and ledger.site.keeps_marks:
            why = f"job {attempt.job_id} came back without our mark"
            entries.append(Entry("learnt", now, data={"site": {"keeps_marks": False}, "why": why}))
        row = row or unmarked.get(attempt.job_id or -1)
        entries += _about(attempt, row, view, ledger, snapshot, policy, now)
    if strange_jobs or strange_holders or entries:  # else all were looked at above
        live = {attempt.token for attempt in ledger.live}
        entries += _adopt(ledger, live, snapshot, now)
        entries += _orphans(ledger, live, slots, entries, now)
    entries += _learn(ledger, snapshot, policy, entries, now)
    return tuple(entries)


_RANK = {JobState.ENDED: 0, JobState.PENDING: 1, JobState.RUNNING: 2}


def _by_token(jobs: Sequence[QueueJob]) -> dict[str, QueueJob]:
    """Each attempt's row; should a token have come twice, of two jobs the one that does more."""
    found = {job.token: job for job in jobs}
    if len(found) == len(jobs):
        return found
    return {job.token: job for job in sorted(jobs, key=lambda job: _RANK[job.state])}


def _unmarked(ledger: Ledger, snapshot: Snapshot) -> dict[int, QueueJob]:
    """Jobs that may be ours by their id alone: only where the site never gave our marks back.

    Elsewhere such a job has an id that was recycled, and belongs to somebody else.
    """
    marked = snapshot.jobs or any(one.started_ts is not None for one in ledger.attempts)
    if marked and ledger.site.keeps_marks:
        return {}
    return {job.job_id: job for job in snapshot.others if not job.run_id}


def _about(
    attempt: Attempt,
    row: QueueJob | None,
    view: SlotView | None,
    ledger: Ledger,
    snapshot: Snapshot,
    policy: Policy,
    now: float,
) -> Iterator[Entry]:
    if row is None:
        yield from _from_lease(attempt, view, ledger, now)
        yield from _missing(attempt, view, snapshot, policy, now)
        return
    yield from _listed(attempt, row, now)
    if row.state is JobState.PENDING:
        return
    if view is not None and view.restarts >= row.restarts:
        yield from _from_lease(attempt, view, ledger, now)
    if row.state is JobState.ENDED:
        yield _end(attempt, row, view, now)
    else:
        yield from _signs_of_life(attempt, row, view, now)


def _from_lease(
    attempt: Attempt, view: SlotView | None, ledger: Ledger, now: float
) -> Iterator[Entry]:
    if view is None:
        return
    if (attempt.slot, attempt.term) != (view.slot, view.term):
        data: dict[str, object] = {"slot": view.slot, "term": view.term}
        if view.release:
            data["release"] = view.release
        if _waited(attempt, view, ledger, now) > SLOW_CLAIM_S:
            data["slow"] = True
        yield Entry("claimed", now, attempt.token, data)
    if attempt.progressed_ts is None and view.checkpoint_term == view.term:
        step = {"checkpoint_step": view.checkpoint_step}
        yield Entry("progressed", now, attempt.token, step)
    if view.goodbye is not None and attempt.left_ts is None:
        yield Entry("left", now, attempt.token, {"reason": view.goodbye})


def _waited(attempt: Attempt, view: SlotView, ledger: Ledger, now: float) -> float:
    """Seconds for which the slot was empty although this attempt was in the queue.

    0 where nobody knows: its last holder was put back into the queue, or has only just left.
    """
    others = (one for one in ledger.attempts if one.token != attempt.token)
    before = [one for one in others if one.slot == view.slot]
    if (not before and view.term > 1) or any(one.training for one in before):
        return 0.0
    freed = max((one.left_ts or one.ended_ts or 0.0 for one in before), default=0.0)
    return now - max(freed, attempt.intended_ts)


def _signs_of_life(
    attempt: Attempt, row: QueueJob, view: SlotView | None, now: float
) -> Iterator[Entry]:
    """A suspended job is not asked for any."""
    if view is None or view.goodbye is not None:
        return
    silent = view.silent_s >= SILENCE_S and not row.word.startswith("SUSPENDED")
    if silent and attempt.observed.silent_ts is None:
        yield Entry("silent", now, attempt.token, {"seconds": round(view.silent_s)})
    elif not silent and attempt.observed.silent_ts is not None:
        yield Entry("stirred", now, attempt.token)


def _listed(attempt: Attempt, row: QueueJob, now: float) -> Iterator[Entry]:
    """Adoption, return, another life of the same job, and its start."""
    if attempt.job_id != row.job_id or attempt.phase is Phase.INTENT:
        yield Entry("submitted", now, attempt.token, {"job_id": row.job_id, "adopted": True})
    elif attempt.observed.absences:
        yield Entry("present", now, attempt.token)
    again = row.restarts > attempt.observed.restarts  # the scheduler put it back into the queue
    if again:
        data = {"reason": row.why, "restarts": row.restarts}
        yield Entry("requeued", now, attempt.token, data)
    if row.state is JobState.PENDING:
        if attempt.phase is Phase.RUNNING and not again:
            yield Entry("requeued", now, attempt.token, {"reason": row.why})
        return
    ran = row.state is JobState.RUNNING or bool(row.node)
    began = attempt.started_ts
    reset = attempt.slot is None and (row.started_ts or 0.0) > (began or 0.0) + 1.0
    if ran and (began is None or again or reset):  # it begins when its node has booted
        started = {"started_ts": row.started_ts or now, "node": row.node}
        yield Entry("started", now, attempt.token, started)


def _end(attempt: Attempt, row: QueueJob, view: SlotView | None, now: float) -> Entry:
    holds = view is not None and view.restarts >= row.restarts
    outcome = _outcome(attempt, row, claimed=attempt.slot is not None or holds)
    goodbye = view.goodbye if view is not None else attempt.reason
    said = f"exit code {row.exit_code}" if row.exit_code else row.word.lower()
    data: dict[str, object] = {"outcome": outcome.value, "reason": goodbye or said}
    if row.exit_code is not None:
        data["exit_code"] = row.exit_code
    if row.canceller is not None:
        data["canceller"] = row.canceller
    return Entry("ended", now, attempt.token, data)


def _outcome(attempt: Attempt, row: QueueJob, claimed: bool) -> Outcome:
    """The meaning of the end in ``row``, of an attempt that ``claimed`` a slot or not.

    The first line that fits wins.
    """
    if attempt.observed.silent_ts is not None:
        return Outcome.HUNG
    named = _BY_WORD.get((row.word.split() or [""])[0].rstrip("+"))
    if named is not None:
        return named
    if row.why == _UNLAUNCHED and not claimed:
        return Outcome.UNLAUNCHED
    if row.exit_code in _BY_EXIT_CODE:
        return _BY_EXIT_CODE[row.exit_code]
    if row.exit_code is None and row.word.startswith("COMPLETED"):
        return Outcome.DONE
    return Outcome.CRASHED if attempt.requests.cancelled_ts is None else Outcome.CANCELLED


def _outcome_of_goodbye(goodbye: str) -> Outcome:
    """The meaning of its last words where nobody remembers the job's end."""
    return Outcome.DONE if goodbye.startswith("total_steps") else Outcome.DRAINED


def _missing(
    attempt: Attempt, view: SlotView | None, snapshot: Snapshot, policy: Policy, now: float
) -> Iterator[Entry]:
    if snapshot.begun_ts <= (attempt.observed.answered_ts or attempt.intended_ts + policy.answer_s):
        return
    gone = view is not None and (view.goodbye is not None or view.holder_alive is False)
    if attempt.observed.absences == 0 and not gone:
        yield Entry("absent", now, attempt.token)
    elif gone or snapshot.begun_ts - attempt.observed.absent_ts >= policy.absence_gap_s:
        yield _gone(attempt, view, now)


def _gone(attempt: Attempt, view: SlotView | None, now: float) -> Entry:
    if attempt.phase is Phase.INTENT:
        return Entry("rejected", now, attempt.token, {"reason": "it never came to the queue"})
    goodbye = view.goodbye if view is not None else None
    if goodbye is not None:
        data = {"outcome": _outcome_of_goodbye(goodbye).value, "reason": goodbye}
    elif attempt.observed.silent_ts is not None:
        data = {"outcome": Outcome.HUNG.value, "reason": "it gave no sign of life"}
    elif attempt.requests.cancelled_ts is not None:
        data = {"outcome": Outcome.CANCELLED.value, "reason": "cancelled by the controller"}
    else:
        data = {"outcome": Outcome.LOST.value, "reason": "gone from two listings"}
    return Entry("ended", now, attempt.token, data)


def _adopt(
    ledger: Ledger, live: AbstractSet[str], snapshot: Snapshot, now: float
) -> Iterator[Entry]:
    """Jobs with our run's mark that the ledger lost, or had given up before they came."""
    strange = [job for job in snapshot.jobs if job.token not in live]
    strange = [job for job in strange if job.state is not JobState.ENDED]
    known = {attempt.token for attempt in ledger.attempts} if strange else set()
    number = ledger.next_number
    for job in strange:
        if job.token not in known:
            yield Entry("intent", now, job.token, {"number": number, "adopted": True})
            number += 1
        yield Entry("submitted", now, job.token, {"job_id": job.job_id, "adopted": True})


def _orphans(
    ledger: Ledger,
    live: AbstractSet[str],
    slots: Sequence[SlotView],
    entries: Sequence[Entry],
    now: float,
) -> Iterator[Entry]:
    """Terms that go on without their holder. Somebody's learner that we never started is let be."""
    ended = {one.token for one in entries if one.kind in ("ended", "rejected", "requeued")}
    adopted = {one.token for one in entries if one.kind == "submitted"}
    if adopted or ended:
        live = (live | adopted) - ended
    noted = {(one.slot, one.term) for one in ledger.orphans}
    for view in slots:
        gone = view.token not in live and view.holder_alive is not True
        if view.goodbye is not None or not gone or (view.slot, view.term) in noted:
            continue
        known = any(one.token == view.token for one in ledger.attempts)
        if known or view.holder_alive is False:
            reason = f"its job is gone ({view.token})"
            data = {"slot": view.slot, "term": view.term, "reason": reason}
            yield Entry("orphaned", now, view.token, data)


def _learn(
    ledger: Ledger, snapshot: Snapshot, policy: Policy, entries: Sequence[Entry], now: float
) -> Iterator[Entry]:
    """Facts about the site's rules that the queue shows: a job too many is held back, or is not."""
    if policy.enforced:
        return
    if not ledger.site.enforced:
        yield from _cap_seen(snapshot, now)
        return
    if not any(entry.data.get("outcome") == Outcome.NOT_NEEDED.value for entry in entries):
        return
    holders = {attempt.token for attempt in ledger.live if attempt.training}
    running = {job.token for job in snapshot.jobs if job.state is JobState.RUNNING}
    if len(holders & running) >= policy.max_running:
        why = "a successor started while every slot was running"
        yield _site({"max_running": policy.max_running + 1}, why, now)


def _cap_seen(snapshot: Snapshot, now: float) -> Iterator[Entry]:
    jobs = (*snapshot.jobs, *snapshot.others)
    capped = next((job for job in jobs if job.waits is Waits.CAP), None)
    if capped is not None:
        why = f"job {capped.job_id} waits for the cap ({capped.why})"
        yield _site({"enforced": True}, why, now)


def _site(facts: Mapping[str, object], why: str, now: float) -> Entry:
    return Entry("learnt", now, data={"site": dict(facts), "why": why})
