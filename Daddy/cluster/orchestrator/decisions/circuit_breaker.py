"""Pure. Decides for how long slots stay empty after failures.

Checkpoint progress counts, not exits: an end by wall time, drain, preemption or a person's
``scancel`` is no failure, and neither is a crash after a checkpoint of its own term. Failures of
one slot hold that slot, later and later. Attempts that die before they claim one, and a fleet in
which no job makes progress, hold all; after enough of these in a row the breaker is open: one
canary at a time, until a canary makes progress. A slot's count starts again with the first
checkpoint that is written there, everything with the person's next ``start``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from zlib import crc32

from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_records import Attempt, JobOutcome, Ledger, Phase

FOREVER_S = 10 * 365 * 86400.0
"""Hold after a failure that waiting cannot help: until the person says ``start`` again."""
REFUSED_FOR_GOOD = "refused for good"
REFUSED = "refused"
"""Beginning of the reason of an attempt that the scheduler would not take."""
_WITHOUT_PROGRESS = frozenset(
    {
        JobOutcome.CRASHED,
        JobOutcome.HUNG,
        JobOutcome.UNLAUNCHED,
        JobOutcome.DONE,
        JobOutcome.NOT_NEEDED,
    }
)
_NOTICED_S = 60.0
"""Claims and goodbyes are noticed that much late at most, while a controller is alive."""
_IN_ORDER = (None, JobOutcome.DRAINED, JobOutcome.DONE)
"""Ends before which a learner that trained wrote a checkpoint; None: it is not known yet."""
_JITTER = 0.3
"""Share by which a wait is longer or shorter, so that two runs do not fail in step."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A slot (None: every empty slot) that must stay empty until ``until``, wall seconds."""

    slot: int | None
    until: float
    failures: int
    reason: str
    open: bool = False
    """The breaker: from ``until`` on, one try at a time."""


def is_failure(attempt: Attempt) -> bool:
    """Whether the attempt ended unwanted and without progress."""
    if attempt.phase is Phase.REJECTED:
        return attempt.reason.startswith(REFUSED)
    if attempt.outcome is JobOutcome.REFUSED:
        return True
    return attempt.outcome in _WITHOUT_PROGRESS and attempt.progressed_ts is None


def is_final(attempt: Attempt) -> bool:
    """Whether trying the same again cannot help."""
    return attempt.outcome is JobOutcome.REFUSED or attempt.reason.startswith(REFUSED_FOR_GOOD)


def find_failures(attempts: Iterable[Attempt], since: float) -> list[Attempt]:
    """Failures that ended at or after ``since`` (wall seconds), oldest first."""
    failed = (attempt for attempt in attempts if _ended(attempt) >= since and is_failure(attempt))
    return sorted(failed, key=_ended)


def find_holds(
    ledger: Ledger, policy: ControllerPolicy, now: float, given_up: Collection[str] = ()
) -> tuple[tuple[Hold, ...], int | None]:
    """The holds that matter at ``now``, and the number of failures left before the breaker opens.

    Holds are those in force, and an open breaker in any case; the number is None while no row of
    failures goes on. Failures of releases in ``given_up`` do not count: nothing runs them any more.
    """
    counted = _Counted(ledger.started_ts, now - policy.forget_s)
    over = (one for one in ledger.over if one.outcome is not JobOutcome.DRAINED)  # nearly all drain
    suspect = {one.slot for one in over if one.release not in given_up and counted.has(one)}
    if not suspect:
        return (), None
    ours = _without_surplus(
        [attempt for attempt in ledger.attempts if attempt.release not in given_up], policy
    )
    failed = _without_progress_anywhere(ours, ledger, counted)
    found = [_open(failed, policy) or _early(ours, policy, counted)]
    for slot in sorted(slot for slot in suspect if slot is not None):
        here = [attempt for attempt in ours if attempt.slot == slot]
        fine = max((attempt.progressed_ts or 0.0 for attempt in here), default=0.0)
        found.append(_hold(slot, counted.failures_of(here, fine), policy, f"in slot {slot}"))
    lasting = (hold for hold in found if hold is not None and (hold.open or hold.until > now))
    return tuple(lasting), max(1, policy.breaker_failures - len(failed)) if failed else None


@dataclass(frozen=True, slots=True)
class _Counted:
    """The times since which failures count; an attempt that asked for no restart is kept."""

    started_ts: float
    forgotten_ts: float

    def has(self, attempt: Attempt) -> bool:
        """Whether an attempt may count as a failure of its slot."""
        late = _ended(attempt) > self.forgotten_ts
        return (late or is_final(attempt)) and is_failure(attempt)

    def failures_of(self, attempts: Sequence[Attempt], fine: float) -> list[Attempt]:
        """Failures among ``attempts`` after all was ``fine``, oldest first."""
        failed = find_failures(attempts, max(fine, self.started_ts))
        return [attempt for attempt in failed if self.has(attempt)]


def _ended(attempt: Attempt) -> float:
    return attempt.ended_ts or 0.0


def _without_surplus(ours: Sequence[Attempt], policy: ControllerPolicy) -> list[Attempt]:
    """Without jobs that found every slot filled: late answers of sbatch, and no failures."""
    took = [one for one in ours if one.slot is not None and one.claimed_ts is not None]
    return [
        attempt
        for attempt in ours
        if attempt.outcome is not JobOutcome.NOT_NEEDED
        or not _was_full(attempt, took, policy.max_running)
    ]


def _was_full(attempt: Attempt, took: Sequence[Attempt], slots: int) -> bool:
    """Whether all slots were held about when ``attempt`` ran, as far as was noticed."""
    moments = [stamp for stamp in (attempt.started_ts, attempt.ended_ts) if stamp is not None]
    return any(
        sum(
            1
            for other in took
            if (other.claimed_ts or 0.0) <= at + _NOTICED_S
            and (other.left_ts or other.ended_ts or inf) >= at - _NOTICED_S
        )
        >= slots
        for at in moments
    )


def _early(ours: Sequence[Attempt], policy: ControllerPolicy, counted: _Counted) -> Hold | None:
    """A hold of all slots, for attempts that died before they claimed one."""
    unclaimed = [attempt for attempt in ours if attempt.slot is None]
    begun = max((one.started_ts or 0.0 for one in ours if one.slot is not None), default=0.0)
    return _hold(None, counted.failures_of(unclaimed, begun), policy, "before claiming a slot")


def _without_progress_anywhere(
    ours: Sequence[Attempt], ledger: Ledger, counted: _Counted
) -> list[Attempt]:
    """All failures since the last progress anywhere; none while a job trains with progress."""
    if any(attempt.progressed_ts is not None and attempt.training for attempt in ledger.live):
        return []
    return counted.failures_of(ours, max(map(_last_progress, ours), default=0.0))


def _last_progress(attempt: Attempt) -> float:
    """The first checkpoint is on record; a job that leaves in order writes another.

    A term is also ended by a crash, and from outside for a silent learner: these wrote nothing.
    """
    left = attempt.left_ts if attempt.outcome in _IN_ORDER else None
    return max(attempt.progressed_ts, left or 0.0) if attempt.progressed_ts else 0.0


def _open(failed: Sequence[Attempt], policy: ControllerPolicy) -> Hold | None:
    """The breaker, which one attempt that could not be launched opens alone."""
    unlaunched = any(attempt.outcome is JobOutcome.UNLAUNCHED for attempt in failed)
    if not unlaunched and len(failed) < policy.breaker_failures:
        return None
    last = failed[-1]
    wait = FOREVER_S if is_final(last) else policy.canary_s * _jitter(last.token)
    said = f"{_in_a_row(len(failed))} and no progress anywhere ({last.reason})"
    until = _ended(last) + wait
    return Hold(None, until, len(failed), f"the breaker is open: {said}", open=True)


def _hold(
    slot: int | None, failed: Sequence[Attempt], policy: ControllerPolicy, where: str
) -> Hold | None:
    if not failed:
        return None
    last, count = failed[-1], len(failed)
    if is_final(last):
        asked = f"an attempt {where} asked not to be restarted"
        said = asked if last.outcome is JobOutcome.REFUSED else "the scheduler takes no job"
        reason = f"{said} ({last.reason}): mend it, then start"
        return Hold(slot, _ended(last) + FOREVER_S, count, reason)
    delay = policy.delays_s[min(count, len(policy.delays_s)) - 1] * _jitter(last.token)
    reason = f"{_in_a_row(count)} {where} ({last.reason}): next try after {delay:.0f} s"
    return Hold(slot, _ended(last) + delay, count, reason)


def _in_a_row(count: int) -> str:
    return "1 failure" if count == 1 else f"{count} failures in a row"


def _jitter(token: str) -> float:
    """A factor around one that is always the same for one failure."""
    return 1.0 + _JITTER * (crc32(token.encode()) / 2**31 - 1.0)
