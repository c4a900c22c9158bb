"""Pure. One look at the queue and at the leases becomes facts about each attempt, for the ledger.

Absence is evidence only in complete listings: an attempt is gone after two of them far enough
apart, or after one when its own end_reason stands on disk. An intent that never showed up is
rejected by the same rule, which is how a submission that timed out is settled without a twin; a
listing counts for that only when it was begun after the submission had surely ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from Daddy.cluster.orchestrator.control_parameters import SILENCE_S, SLOW_CLAIM_S, ControllerPolicy
from Daddy.cluster.orchestrator.controller_records import (
    Attempt,
    JobOutcome,
    JobState,
    Ledger,
    Phase,
    QueueJob,
    SlotView,
    Snapshot,
    WaitReason,
)
from Daddy.cluster.orchestrator.ledger_replay import LedgerEntry

_BY_EXIT_CODE = {
    0: JobOutcome.DONE,
    10: JobOutcome.DRAINED,
    11: JobOutcome.NOT_NEEDED,
    **dict.fromkeys((2, 3, 7, 93), JobOutcome.REFUSED),
}
"""Exit codes of a learner (``core.errors``) that say more than success or failure."""

_BY_WORD = {
    "TIMEOUT": JobOutcome.DRAINED,
    "PREEMPTED": JobOutcome.DRAINED,
    "CANCELLED": JobOutcome.CANCELLED,
    "NODE_FAIL": JobOutcome.NODE_FAILED,
    "BOOT_FAIL": JobOutcome.NODE_FAILED,
    "LOST": JobOutcome.LOST,
}
"""Scheduler's words that say more than the exit code does."""

_UNLAUNCHED = "JobLaunchFailure"
"""Slurm's reason for a job whose script it could not start, and for one whose script was killed."""


def reconcile(
    ledger: Ledger,
    snapshot: Snapshot,
    slots: Sequence[SlotView],
    policy: ControllerPolicy,
    now: float,
) -> tuple[LedgerEntry, ...]:
    """Facts to append to the ledger, in order."""
    look = _Look(ledger, snapshot, policy, now)
    rows, unmarked = _by_token(snapshot.jobs), _unmarked(ledger, snapshot)
    leases = {view.token: view for view in slots}
    entries: list[LedgerEntry] = []
    for attempt in ledger.live:
        row = rows.get(attempt.token)
        if row is None and (row := unmarked.get(attempt.job_id)) and ledger.site.keeps_marks:
            why = f"job {attempt.job_id} came back without our mark"
            entries.append(look.learnt({"keeps_marks": False}, why))
        entries += look.at_attempt(attempt, row, leases.get(attempt.token))
    live = {attempt.token for attempt in ledger.live}
    if entries or not (rows.keys() <= live and leases.keys() <= live):  # else all was looked at
        entries += look.for_strangers(live)
        entries += look.for_orphans(live, slots, entries)
    entries += look.at_site(entries)
    return tuple(entries)


_RANK = {JobState.ENDED: 0, JobState.PENDING: 1, JobState.RUNNING: 2}


def _by_token(jobs: Sequence[QueueJob]) -> dict[str, QueueJob]:
    """Each attempt's row; should a token have come twice, of two jobs the one that does more."""
    found = {job.token: job for job in jobs}
    if len(found) < len(jobs):
        found = {job.token: job for job in sorted(jobs, key=lambda job: _RANK[job.state])}
    return found


def _unmarked(ledger: Ledger, snapshot: Snapshot) -> dict[int | None, QueueJob]:
    """Jobs that may be ours by their id alone: only where the site never gave our marks back.

    Elsewhere such a job has an id that was recycled, and belongs to somebody else.
    """
    marked = snapshot.jobs or any(one.started_ts is not None for one in ledger.attempts)
    if marked and ledger.site.keeps_marks:
        return {}
    return {job.job_id: job for job in snapshot.others if not job.run_id}


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at the queue, beside what was known before it."""

    ledger: Ledger
    snapshot: Snapshot
    policy: ControllerPolicy
    now: float

    def at_attempt(
        self, attempt: Attempt, row: QueueJob | None, view: SlotView | None
    ) -> Iterator[LedgerEntry]:
        if row is None:
            yield from self._from_lease(attempt, view)
            yield from self._missing(attempt, view)
            return
        yield from self._listed(attempt, row)
        if row.state is JobState.PENDING:
            return
        if view is not None and view.restarts >= row.restarts:
            yield from self._from_lease(attempt, view)
        if row.state is JobState.ENDED:
            yield self._end(attempt, row, view)
        elif view is not None and view.end_reason is None:
            yield from self._signs_of_life(attempt, row, view)

    def _from_lease(self, attempt: Attempt, view: SlotView | None) -> Iterator[LedgerEntry]:
        if view is None:
            return
        if (attempt.slot, attempt.term) != (view.slot, view.term):
            told = {"release": view.release} if view.release else {}
            slow = {"slow": True} if self._waited(attempt, view) > SLOW_CLAIM_S else {}
            yield self._entry("claimed", attempt, slot=view.slot, term=view.term, **told, **slow)
        if attempt.progressed_ts is None and view.checkpoint_term == view.term:
            yield self._entry("progressed", attempt, checkpoint_step=view.checkpoint_step)
        if view.end_reason is not None and attempt.left_ts is None:
            yield self._entry("left", attempt, reason=view.end_reason)

    def _waited(self, attempt: Attempt, view: SlotView) -> float:
        """Seconds for which the slot was empty although this attempt was in the queue.

        0 where nobody knows: its last holder was put back into the queue, or has only just left.
        """
        others = (one for one in self.ledger.attempts if one.token != attempt.token)
        before = [one for one in others if one.slot == view.slot]
        if (not before and view.term > 1) or any(one.training for one in before):
            return 0.0
        freed = max((one.left_ts or one.ended_ts or 0.0 for one in before), default=0.0)
        return self.now - max(freed, attempt.intended_ts)

    def _signs_of_life(
        self, attempt: Attempt, row: QueueJob, view: SlotView
    ) -> Iterator[LedgerEntry]:
        """A suspended job is not asked for any."""
        silent = view.silent_s >= SILENCE_S and not row.word.startswith("SUSPENDED")
        if silent and attempt.observed.silent_ts is None:
            yield self._entry("silent", attempt, seconds=round(view.silent_s))
        elif not silent and attempt.observed.silent_ts is not None:
            yield self._entry("stirred", attempt)

    def _listed(self, attempt: Attempt, row: QueueJob) -> Iterator[LedgerEntry]:
        """Adoption, return, another life of the same job, and its start."""
        if attempt.job_id != row.job_id or attempt.phase is Phase.INTENT:
            yield self._entry("submitted", attempt, job_id=row.job_id, adopted=True)
        elif attempt.observed.absences:
            yield self._entry("present", attempt)
        again = row.restarts > attempt.observed.restarts  # the scheduler put it back in the queue
        if again:
            yield self._entry("requeued", attempt, reason=row.why, restarts=row.restarts)
        if row.state is JobState.PENDING:
            if attempt.phase is Phase.RUNNING and not again:
                yield self._entry("requeued", attempt, reason=row.why)
            return
        ran = row.state is JobState.RUNNING or bool(row.node)
        began = attempt.started_ts
        reset = attempt.slot is None and (row.started_ts or 0.0) > (began or 0.0) + 1.0
        if ran and (began is None or again or reset):  # it begins when its node has booted
            started_ts = row.started_ts or self.now
            yield self._entry("started", attempt, started_ts=started_ts, node=row.node)

    def _end(self, attempt: Attempt, row: QueueJob, view: SlotView | None) -> LedgerEntry:
        holds = view is not None and view.restarts >= row.restarts
        outcome = _outcome(attempt, row, claimed=attempt.slot is not None or holds)
        end_reason = view.end_reason if view is not None else attempt.reason
        said = f"exit code {row.exit_code}" if row.exit_code else row.word.lower()
        told = {"exit_code": row.exit_code, "canceller": row.canceller}
        known = {name: value for name, value in told.items() if value is not None}
        return self._entry(
            "ended", attempt, outcome=outcome.value, reason=end_reason or said, **known
        )

    def _missing(self, attempt: Attempt, view: SlotView | None) -> Iterator[LedgerEntry]:
        seen, begun_ts = attempt.observed, self.snapshot.begun_ts
        if begun_ts <= (seen.answered_ts or attempt.intended_ts + self.policy.answer_s):
            return
        gone = view is not None and (view.end_reason is not None or view.holder_alive is False)
        if seen.absences == 0 and not gone:
            yield self._entry("absent", attempt)
        elif not gone and begun_ts - seen.absent_ts < self.policy.absence_gap_s:
            return
        elif attempt.phase is Phase.INTENT:
            yield self._entry("rejected", attempt, reason="it never came to the queue")
        else:
            outcome, reason = _unlisted_outcome(attempt, view)
            yield self._entry("ended", attempt, outcome=outcome.value, reason=reason)

    def for_strangers(self, live: AbstractSet[str]) -> Iterator[LedgerEntry]:
        """Jobs with our run's mark that the ledger lost, or had given up before they came."""
        strange = (job for job in self.snapshot.jobs if job.token not in live)
        known = {attempt.token for attempt in self.ledger.attempts}
        number = self.ledger.next_number
        for job in (job for job in strange if job.state is not JobState.ENDED):
            if job.token not in known:
                yield LedgerEntry(
                    "intent", self.now, job.token, {"number": number, "adopted": True}
                )
                number += 1
            facts = {"job_id": job.job_id, "adopted": True}
            yield LedgerEntry("submitted", self.now, job.token, facts)

    def for_orphans(
        self, live: AbstractSet[str], slots: Sequence[SlotView], entries: Sequence[LedgerEntry]
    ) -> Iterator[LedgerEntry]:
        """Terms without their holder. Somebody's learner that we never started is let be."""
        ended = {one.token for one in entries if one.kind in ("ended", "rejected", "requeued")}
        adopted = {one.token for one in entries if one.kind == "submitted"}
        live = (live | adopted) - ended
        noted = {(one.slot, one.term) for one in self.ledger.orphans}
        for view in slots:
            gone = view.token not in live and view.holder_alive is not True
            if view.end_reason is not None or not gone or (view.slot, view.term) in noted:
                continue
            known = any(one.token == view.token for one in self.ledger.attempts)
            if known or view.holder_alive is False:
                reason = f"its job is gone ({view.token})"
                data = {"slot": view.slot, "term": view.term, "reason": reason}
                yield LedgerEntry("orphaned", self.now, view.token, data)

    def at_site(self, entries: Sequence[LedgerEntry]) -> Iterator[LedgerEntry]:
        """Facts about the site's rules: a job too many is held back, or is not."""
        if self.policy.enforced:
            return
        if not self.ledger.site.enforced:
            jobs = (*self.snapshot.jobs, *self.snapshot.others)
            capped = next((job for job in jobs if job.waits is WaitReason.CAP), None)
            if capped is not None:
                why = f"job {capped.job_id} waits for the cap ({capped.why})"
                yield self.learnt({"enforced": True}, why)
        elif any(entry.data.get("outcome") == JobOutcome.NOT_NEEDED.value for entry in entries):
            holders = {attempt.token for attempt in self.ledger.live if attempt.training}
            states = ((job.token, job.state) for job in self.snapshot.jobs)
            running = {token for token, state in states if state is JobState.RUNNING}
            if len(holders & running) >= self.policy.max_running:
                why = "a successor started while every slot was running"
                yield self.learnt({"max_running": self.policy.max_running + 1}, why)

    def _entry(self, kind: str, attempt: Attempt, **data: object) -> LedgerEntry:
        return LedgerEntry(kind, self.now, attempt.token, data)

    def learnt(self, facts: Mapping[str, object], why: str) -> LedgerEntry:
        return LedgerEntry("learnt", self.now, data={"site": facts, "why": why})


def _outcome(attempt: Attempt, row: QueueJob, claimed: bool) -> JobOutcome:
    """The meaning of the end in ``row``, of an attempt that ``claimed`` a slot or not.

    The first line that fits wins.
    """
    if attempt.observed.silent_ts is not None:
        return JobOutcome.HUNG
    named = _BY_WORD.get((row.word.split() or [""])[0].rstrip("+"))
    if named is not None:
        return named
    if row.why == _UNLAUNCHED and not claimed:
        return JobOutcome.UNLAUNCHED
    if row.exit_code in _BY_EXIT_CODE:
        return _BY_EXIT_CODE[row.exit_code]
    if row.exit_code is None and row.word.startswith("COMPLETED"):
        return JobOutcome.DONE
    return JobOutcome.CRASHED if attempt.requests.cancelled_ts is None else JobOutcome.CANCELLED


def _unlisted_outcome(attempt: Attempt, view: SlotView | None) -> tuple[JobOutcome, str]:
    """The meaning of an end that no listing shows: by the learner's end_reason, or our requests."""
    if view is not None and view.end_reason is not None:
        done = view.end_reason.startswith("total_steps")
        return (JobOutcome.DONE if done else JobOutcome.DRAINED), view.end_reason
    if attempt.observed.silent_ts is not None:
        return JobOutcome.HUNG, "it gave no sign of life"
    if attempt.requests.cancelled_ts is not None:
        return JobOutcome.CANCELLED, "cancelled by the controller"
    return JobOutcome.LOST, "gone from two listings"
