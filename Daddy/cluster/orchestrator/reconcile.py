"""Pure. Derives ledger entries about each attempt from one queue listing and the slot leases.

Absence counts only in complete listings: an attempt has ended after two listings without it that
are far enough apart, or after one if its lease has ended. A listing without a job that sends
heartbeats is not complete, so no job counts as absent in it: the heartbeat is believed until ten
minutes after the job's own end, then the slot's term ends, which the learner obeys. An intent that
never shows up is rejected by the same rule, so a submission that timed out is not repeated while
its job may exist; a listing counts for that only when it was requested after the submission must
have finished.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from Daddy.cluster.orchestrator.control_parameters import SILENCE_S, SLOW_CLAIM_S, ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import (
    Attempt,
    JobOutcome,
    JobState,
    Ledger,
    Phase,
    QueueJob,
    QueueReading,
    SlotView,
    Snapshot,
    UnknownQueue,
    WaitReason,
)
from Daddy.cluster.orchestrator.ledger_replay import LedgerEntry

_BY_EXIT_CODE = {
    0: JobOutcome.DONE,
    10: JobOutcome.DRAINED,
    11: JobOutcome.NOT_NEEDED,
    **dict.fromkeys((2, 3, 7, 14, 93), JobOutcome.REFUSED),
}
"""Exit codes of a learner (``core.errors``) with a meaning beyond success or failure."""

_FAILED = re.compile(r"exit code (\d{1,3}): ")
"""Begins the end of a lease that a failed learner released (``train_slim``)."""

_BY_WORD = {
    "TIMEOUT": JobOutcome.DRAINED,
    "PREEMPTED": JobOutcome.DRAINED,
    "CANCELLED": JobOutcome.CANCELLED,
    "NODE_FAIL": JobOutcome.NODE_FAILED,
    "BOOT_FAIL": JobOutcome.NODE_FAILED,
    "OUT_OF_MEMORY": JobOutcome.CRASHED,
    "DEADLINE": JobOutcome.DRAINED,
    "LOST": JobOutcome.LOST,
}
"""Job states of the scheduler that decide the outcome before the exit code does."""

_MEMORY = "raise slurm.memory or lower training.num_envs"
_NUMBERED = ("FAILED", "COMPLETED", "COMPLETING", "")
"""Job states that say nothing beyond the exit code."""
_EXIT_CODES = {
    126: "a program is not executable: check slurm.setup",
    127: "a program was not found: check slurm.setup and `run_controller logs --failed`",
    137: f"killed by SIGKILL, often for lack of memory: {_MEMORY}",
    134: "killed by SIGABRT",
    135: "killed by SIGBUS",
    139: "killed by SIGSEGV",
}

_STANDSTILL_S = 120.0
"""Seconds in which the heartbeat of a learner moves, as in ``core.slot_lease``."""
_OVERTIME_S = 600.0
"""Seconds after a job's own end for which its heartbeat still proves listings incomplete."""

_UNEXPLAINED = (JobOutcome.CANCELLED, JobOutcome.CRASHED, JobOutcome.UNLAUNCHED)
"""Outcomes of a job without a slot that its node may have caused, such as by a failing prolog."""
_UNLAUNCHED = "JobLaunchFailure"
"""Slurm's reason for a job script that it could not start, or that was killed."""


def reconcile(
    ledger: Ledger,
    snapshot: Snapshot,
    slots: Sequence[SlotView],
    policy: ControllerPolicy,
    now: float,
) -> tuple[LedgerEntry, ...]:
    """Return the entries to append to the ledger, in order."""
    beating = find_unlisted(ledger, snapshot, slots, policy, now)
    comparison = _Comparison(ledger, snapshot, policy, now, frozenset(beating))
    rows, unmarked = _by_token(snapshot.jobs), _without_token(ledger, snapshot)
    leases = {view.token: view for view in slots}
    entries: list[LedgerEntry] = []
    for attempt in ledger.live:
        row = rows.get(attempt.token)
        if row is None and (row := unmarked.get(attempt.job_id)) and ledger.site.keeps_marks:
            why = f"job {attempt.job_id} was listed without our token"
            entries.append(comparison.learnt({"keeps_marks": False}, why))
        entries += comparison.for_attempt(attempt, row, leases.get(attempt.token))
    live = {attempt.token for attempt in ledger.live}
    if entries or not (rows.keys() <= live and leases.keys() <= live):  # else all are handled
        entries += comparison.adopt_unknown_jobs(live)
        entries += comparison.find_orphans(live, slots, entries)
    entries += comparison.learn_limits(entries)
    return tuple(entries)


def doubt_listing(
    ledger: Ledger,
    snapshot: Snapshot,
    slots: Sequence[SlotView],
    policy: ControllerPolicy,
    now: float,
) -> QueueReading:
    """Return an unknown queue if no job of the run is listed although learners beat."""
    unlisted = find_unlisted(ledger, snapshot, slots, policy, now)
    if not unlisted or any(job.state is not JobState.ENDED for job in snapshot.jobs):
        return snapshot
    jobs = ", ".join(f"job {job_id or '?'}" for job_id in unlisted.values())
    why = f"squeue lists no job of this run, but heartbeats come from {jobs}"
    return UnknownQueue(snapshot.begun_ts, why)


def find_unlisted(
    ledger: Ledger,
    snapshot: Snapshot,
    slots: Sequence[SlotView],
    policy: ControllerPolicy,
    now: float,
) -> dict[str, int | None]:
    """Return token → job id of attempts that listings lack although their learners beat."""
    listed, live = {job.token for job in snapshot.jobs}, {job.token: job for job in ledger.live}
    held = [view for view in slots if view.token in live.keys() - listed]
    return {
        view.token: live[view.token].job_id
        for view in held
        if _beats(live[view.token], view, snapshot.begun_ts, policy, now)
    }


def _beats(
    attempt: Attempt, view: SlotView, listed_ts: float, policy: ControllerPolicy, now: float
) -> bool:
    """Return True if a heartbeat moved since the first listing without the job."""
    observed = attempt.observed
    limit_s = attempt.requests.limit_s or policy.limit_s
    ends_ts = attempt.ends_ts or (attempt.started_ts or attempt.intended_ts) + limit_s
    if observed.absences == 0 or _is_gone(view) or now >= ends_ts + _OVERTIME_S:
        return False
    moved_before = observed.absences > 1  # between the two newest of these listings
    recent = moved_before and listed_ts - observed.absent_ts < _STANDSTILL_S
    return view.beat != observed.absent_beat or recent


def _is_gone(view: SlotView) -> bool:
    """Return True if its lease ended, or its process is known to be dead."""
    return view.end_reason is not None or view.holder_alive is False


_RANK = {JobState.ENDED: 0, JobState.PENDING: 1, JobState.RUNNING: 2}


def _by_token(jobs: Sequence[QueueJob]) -> dict[str, QueueJob]:
    """Return the row of each token; of two jobs with one token the most active one."""
    rows = {job.token: job for job in jobs}
    if len(rows) < len(jobs):
        rows = {job.token: job for job in sorted(jobs, key=lambda job: _RANK[job.state])}
    return rows


def _without_token(ledger: Ledger, snapshot: Snapshot) -> dict[int | None, QueueJob]:
    """Return id → job without a token; {} if Slurm is known to list our jobs' tokens."""
    marked = snapshot.jobs or any(attempt.started_ts is not None for attempt in ledger.attempts)
    if marked and ledger.site.keeps_marks:
        return {}
    return {job.job_id: job for job in snapshot.others if not job.run_id}


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Compares one listing of the queue with the ledger before it."""

    ledger: Ledger
    snapshot: Snapshot
    policy: ControllerPolicy
    now: float
    beating: AbstractSet[str]
    """Tokens of unlisted attempts whose learners beat."""

    def for_attempt(
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
            yield from self._heartbeat(attempt, row, view)

    def _from_lease(self, attempt: Attempt, view: SlotView | None) -> Iterator[LedgerEntry]:
        if view is None:
            return
        if (attempt.slot, attempt.term) != (view.slot, view.term):
            release = {"release": view.release} if view.release else {}
            slow = {"slow": True} if self._waited(attempt, view) > SLOW_CLAIM_S else {}
            yield self._entry("claimed", attempt, slot=view.slot, term=view.term, **release, **slow)
        if attempt.progressed_ts is None and view.checkpoint_term == view.term:
            yield self._entry("progressed", attempt, checkpoint_step=view.checkpoint_step)
        if view.end_reason is not None and attempt.left_ts is None:
            yield self._entry("left", attempt, reason=view.end_reason)

    def _waited(self, attempt: Attempt, view: SlotView) -> float:
        """Return seconds for which the slot was empty and the job free to start; 0 if unknown."""
        others = (other for other in self.ledger.attempts if other.token != attempt.token)
        before = [other for other in others if other.slot == view.slot]
        if (not before and view.term > 1) or any(other.training for other in before):
            return 0.0
        freed = max((other.left_ts or other.ended_ts or 0.0 for other in before), default=0.0)
        return self.now - max(freed, attempt.intended_ts, attempt.requests.released_ts)

    def _heartbeat(self, attempt: Attempt, row: QueueJob, view: SlotView) -> Iterator[LedgerEntry]:
        """Yield an entry if the heartbeat stopped or resumed; a suspended job is never silent."""
        silent = view.silent_s >= SILENCE_S and not row.slurm_state.startswith("SUSPENDED")
        if silent and attempt.observed.silent_ts is None:
            yield self._entry("silent", attempt, seconds=round(view.silent_s))
        elif not silent and attempt.observed.silent_ts is not None:
            yield self._entry("stirred", attempt)

    def _listed(self, attempt: Attempt, row: QueueJob) -> Iterator[LedgerEntry]:
        """Yield entries if a listed job was adopted, came back, was requeued or has started."""
        if attempt.job_id != row.job_id or attempt.phase is Phase.INTENT:
            yield self._entry("submitted", attempt, job_id=row.job_id, adopted=True)
        elif attempt.observed.absences:
            yield self._entry("present", attempt)
        again = row.restarts > attempt.observed.restarts  # the scheduler requeued it
        if again:
            yield self._entry("requeued", attempt, reason=row.slurm_reason, restarts=row.restarts)
        if row.state is JobState.PENDING:
            if attempt.phase is Phase.RUNNING and not again:
                yield self._entry("requeued", attempt, reason=row.slurm_reason)
            return
        ran = row.state is JobState.RUNNING or bool(row.node)
        began = attempt.started_ts
        reset = attempt.slot is None and (row.started_ts or 0.0) > (began or 0.0) + 1.0
        if ran and (began is None or again or reset):  # a node may boot first: the start time moves
            times = {"started_ts": row.started_ts or self.now, "ends_ts": row.ends_ts}
            yield self._entry("started", attempt, **times, node=row.node)

    def _end(self, attempt: Attempt, row: QueueJob, view: SlotView | None) -> LedgerEntry:
        holds = view is not None and view.restarts >= row.restarts
        outcome = _outcome(attempt, row, claimed=attempt.slot is not None or holds)
        end_reason = view.end_reason if view is not None else attempt.reason
        facts = {"exit_code": row.exit_code, "canceller": row.canceller}
        present = {name: value for name, value in facts.items() if value is not None}
        reason = _describe_end(row, end_reason or "", outcome)
        return self._entry("ended", attempt, outcome=outcome.value, reason=reason, **present)

    def _missing(self, attempt: Attempt, view: SlotView | None) -> Iterator[LedgerEntry]:
        observed, begun_ts = attempt.observed, self.snapshot.begun_ts
        if begun_ts <= (observed.answered_ts or attempt.intended_ts + self.policy.answer_s):
            return
        gone, waited_s = view is not None and _is_gone(view), begun_ts - observed.absent_ts
        stale = attempt.token in self.beating and waited_s >= _STANDSTILL_S
        stood_still = view is None or view.silent_s >= _STANDSTILL_S
        gap_s = self.policy.absence_gap_s if stood_still else _STANDSTILL_S
        if not gone and (observed.absences == 0 or stale):
            yield self._entry("absent", attempt, beat=view.beat if view is not None else None)
        elif not gone and (self.beating or waited_s < gap_s):
            return
        elif attempt.phase is Phase.INTENT:
            why = f" ({attempt.reason})" if attempt.reason else ""
            yield self._entry("rejected", attempt, reason=f"it never came to the queue{why}")
        else:
            outcome, reason = _unlisted_outcome(attempt, view)
            yield self._entry("ended", attempt, outcome=outcome.value, reason=reason)

    def adopt_unknown_jobs(self, live: AbstractSet[str]) -> Iterator[LedgerEntry]:
        """Yield entries that adopt this run's listed jobs if the ledger lacks or rejected them."""
        unknown = (job for job in self.snapshot.jobs if job.token not in live)
        recorded = {attempt.token for attempt in self.ledger.attempts}
        number = self.ledger.next_number
        for job in (job for job in unknown if job.state is not JobState.ENDED):
            if job.token not in recorded:
                data = {"number": number, "adopted": True}
                yield LedgerEntry("intent", self.now, job.token, data)
                number += 1
            facts = {"job_id": job.job_id, "adopted": True}
            yield LedgerEntry("submitted", self.now, job.token, facts)

    def find_orphans(
        self, live: AbstractSet[str], slots: Sequence[SlotView], entries: Sequence[LedgerEntry]
    ) -> Iterator[LedgerEntry]:
        """Yield entries of slots' terms with a dead holder, except of learners started by hand.

        A waiting job that incomplete listings lacked counts as ended; when it starts and claims a
        slot, it is adopted again.
        """
        kinds = ("ended", "rejected", "requeued")
        ended = {entry.token for entry in entries if entry.kind in kinds}
        adopted = {entry.token for entry in entries if entry.kind == "submitted"}
        live = (live | adopted) - ended
        noted = {(orphan.slot, orphan.term) for orphan in self.ledger.orphans}
        for view in slots:
            gone = view.token not in live and view.holder_alive is not True
            if view.end_reason is not None or not gone or (view.slot, view.term) in noted:
                continue
            ours = next((old for old in self.ledger.attempts if old.token == view.token), None)
            if ours and _claimed_since(ours, view):
                facts = {"job_id": ours.job_id, "adopted": True}
                yield LedgerEntry("submitted", self.now, view.token, facts)
            elif ours or view.holder_alive is False:
                reason = f"its job is gone ({view.token})"
                data = {"slot": view.slot, "term": view.term, "reason": reason}
                yield LedgerEntry("orphaned", self.now, view.token, data)

    def learn_limits(self, entries: Sequence[LedgerEntry]) -> Iterator[LedgerEntry]:
        """Yield an entry if the listing shows that jobs over the cap wait, or that they start."""
        if self.policy.enforced:
            return
        if not self.ledger.site.enforced:
            jobs = (*self.snapshot.jobs, *self.snapshot.others)
            capped = next((job for job in jobs if job.wait_reason is WaitReason.CAP), None)
            if capped is not None:
                why = f"job {capped.job_id} waits for the cap ({capped.slurm_reason})"
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


def _claimed_since(attempt: Attempt, view: SlotView) -> bool:
    """Return True if an attempt given up as lost holds a slot that it did not hold then."""
    lost = attempt.outcome is JobOutcome.LOST and attempt.slot is None
    return lost and view.holder_alive is not False and view.silent_s < _STANDSTILL_S


def may_be_node_failure(attempt: Attempt, row: QueueJob) -> bool:
    """Return True if a job ended on a node before it claimed, and neither it nor we say why."""
    if row.state is not JobState.ENDED or not row.node or attempt.slot is not None:
        return False
    outcome = _outcome(attempt, row, claimed=False)
    return outcome in _UNEXPLAINED and not attempt.requests.dismissed


def _outcome(attempt: Attempt, row: QueueJob, claimed: bool) -> JobOutcome:
    """Return the outcome of an ended job; ``claimed``: it held a slot. The first rule wins."""
    if attempt.observed.silent_ts is not None:
        return JobOutcome.HUNG
    named = _BY_WORD.get("NODE_FAIL" if row.drained and not claimed else _word(row))
    if named is not None:
        return named
    if row.slurm_reason == _UNLAUNCHED and not claimed:
        return JobOutcome.UNLAUNCHED
    if row.exit_code in _BY_EXIT_CODE:
        return _BY_EXIT_CODE[row.exit_code]
    if row.exit_code is None and row.slurm_state.startswith("COMPLETED"):
        return JobOutcome.DONE
    return JobOutcome.CRASHED if attempt.requests.cancelled_ts is None else JobOutcome.CANCELLED


def _word(row: QueueJob) -> str:
    """Return the scheduler's word for the job's state, without the user that cancelled it."""
    return (row.slurm_state.split() or [""])[0].rstrip("+")


def _describe_end(row: QueueJob, end_reason: str, outcome: JobOutcome) -> str:
    """Return the reason of a job's end and its remedy; ``end_reason``: the learner's own, or "".

    A word of the scheduler that tells the cause counts more than the exit code.
    """
    word, node = _word(row), row.node or "its node"
    known = {
        "OUT_OF_MEMORY": f"out of memory ({word}): {_MEMORY}",
        "NODE_FAIL": f"node {node} failed ({word})",
        "BOOT_FAIL": f"node {node} did not boot ({word})",
    }
    if word in known:
        return f"{known[word]}; {end_reason}" if end_reason else known[word]
    if end_reason or row.drained:
        return end_reason or f"node {node} is drained: {row.drained}"
    number = _describe_exit_code(row.exit_code) if row.exit_code else ""
    if outcome is JobOutcome.UNLAUNCHED:
        why = f"Slurm could not start the job script, or ended it ({_UNLAUNCHED})"
        return f"{why}: {number}" if number else why
    return number if number and word in _NUMBERED else word.lower()


def _describe_exit_code(code: int) -> str:
    known = _EXIT_CODES.get(code, "")
    return f"exit code {code} ({known})" if known else f"exit code {code}"


def _unlisted_outcome(attempt: Attempt, view: SlotView | None) -> tuple[JobOutcome, str]:
    """Return outcome and reason of an unlisted job, by its lease's end or the ledger's requests."""
    if view is not None and view.end_reason is not None:
        if failed := _FAILED.match(view.end_reason):
            return _BY_EXIT_CODE.get(int(failed[1]), JobOutcome.CRASHED), view.end_reason
        done = view.end_reason.startswith("total_steps")
        return JobOutcome.DONE if done else JobOutcome.DRAINED, view.end_reason
    if attempt.observed.silent_ts is not None:
        return JobOutcome.HUNG, "its heartbeat stopped"
    if attempt.requests.cancelled_ts is not None:
        return JobOutcome.CANCELLED, "cancelled by the controller"
    return JobOutcome.LOST, "gone from two listings"
