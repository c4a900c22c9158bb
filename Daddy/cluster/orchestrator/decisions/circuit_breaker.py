"""Pure. Decides for how long slots stay empty after failures.

An attempt fails by ending without a checkpoint of its own lease term. Ends by time limit, drain,
preemption or the person's ``scancel`` are no failures, nor is a crash after a checkpoint. Failures
in one slot keep that slot empty, longer each time. Failures before a claim, and failures while no
job makes progress, keep every slot empty; after ``breaker_failures`` of them the breaker is open:
one job at a time (a canary) is tried until one writes a checkpoint. The first checkpoint in a slot
resets the slot's count, and the person's next ``start`` resets all; so does the end of a full disk,
but for failures that a retry cannot mend.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from zlib import crc32

from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import Attempt, JobOutcome, Ledger, Phase
from Daddy.core.errors import ExitCode

FOREVER_S = 10 * 365 * 86400.0
"""Hold after a failure that a retry cannot mend: it lasts until the person's next ``start``."""
REFUSED_FOR_GOOD = "refused for good"
REFUSED = "refused"
"""First words of an attempt's reason if the scheduler refused the job."""
_FAULTS = (JobOutcome.CRASHED, JobOutcome.HUNG, JobOutcome.UNLAUNCHED)
_WITHOUT_PROGRESS = (*_FAULTS, JobOutcome.DONE, JobOutcome.NOT_NEEDED)
_NOTICED_S = 60.0
"""Longest delay after which a live controller notices a claim or the end of a term."""
_IN_ORDER = (None, JobOutcome.DRAINED, JobOutcome.DONE)
"""Outcomes before which a training learner wrote a checkpoint; None: not ended yet."""
_FILES = re.compile(rf"exit code {ExitCode.FILES:d}\b")
_JITTER = 0.3
"""Largest relative change of a wait, so that two runs do not retry at the same times."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Keeps a slot (None: every empty slot) empty until ``until``, wall seconds."""

    slot: int | None
    until: float
    failures: int
    reason: str
    open: bool = False
    """True: the breaker is open; from ``until`` on one job at a time is tried."""


def is_failure(attempt: Attempt) -> bool:
    """Return True if the attempt was refused, or ended by a fault before its first checkpoint."""
    if attempt.phase is Phase.REJECTED:
        return attempt.reason.startswith(REFUSED)
    if attempt.outcome is JobOutcome.REFUSED:
        return True
    return attempt.outcome in _WITHOUT_PROGRESS and attempt.progressed_ts is None


def is_final(attempt: Attempt) -> bool:
    """Return True if a retry would fail in the same way: the job or its start was refused."""
    return attempt.outcome is JobOutcome.REFUSED or attempt.reason.startswith(REFUSED_FOR_GOOD)


def may_lack_room(attempt: Attempt, since: float) -> bool:
    """Return True if the attempt failed at a file or a disk, at or after ``since``."""
    return _ended(attempt) >= since and _FILES.match(attempt.reason) is not None


def find_failures(attempts: Iterable[Attempt], since: float) -> list[Attempt]:
    """Return failures that ended at or after ``since`` (wall seconds), oldest first."""
    failed = (attempt for attempt in attempts if _ended(attempt) >= since and is_failure(attempt))
    return sorted(failed, key=_ended)


def find_holds(
    ledger: Ledger, policy: ControllerPolicy, now: float, given_up: Collection[str] = ()
) -> tuple[tuple[Hold, ...], int | None]:
    """Return the holds at ``now``, and the number of failures left before the breaker opens.

    An open breaker's Hold is returned also after ``until``. The number is None without failures.
    Failures of the releases in ``given_up`` do not count: no slot runs these any more.
    """
    counted = _Failures(ledger.start_seen_ts, max(now - policy.forget_s, ledger.room_ts))
    ended = (end for end in ledger.ended_or_rejected if end.outcome is not JobOutcome.DRAINED)
    suspect = {end.slot for end in ended if end.release not in given_up and counted.counts(end)}
    if not suspect:
        return (), None
    ours = _without_surplus(
        [attempt for attempt in ledger.attempts if attempt.release not in given_up], policy
    )
    failed = _without_progress_anywhere(ours, ledger, counted)
    holds = [_open(failed, policy) or _early(ours, policy, counted)]
    for slot in sorted(slot for slot in suspect if slot is not None):
        in_slot = [attempt for attempt in ours if attempt.slot == slot]
        progressed_ts = max((attempt.progressed_ts or 0.0 for attempt in in_slot), default=0.0)
        failed_here = counted.failures_of(in_slot, progressed_ts)
        holds.append(_hold(slot, failed_here, policy, f"in slot {slot}"))
    lasting = (hold for hold in holds if hold is not None and (hold.open or hold.until > now))
    return tuple(lasting), max(1, policy.breaker_failures - len(failed)) if failed else None


@dataclass(frozen=True, slots=True)
class _Failures:
    """Selects failures since the last ``start`` that are final, or later than ``forgotten_ts``."""

    started_ts: float
    forgotten_ts: float

    def counts(self, attempt: Attempt) -> bool:
        """Return True if the attempt is a failure, and recent or final."""
        late = _ended(attempt) > self.forgotten_ts
        return (late or is_final(attempt)) and is_failure(attempt)

    def failures_of(self, attempts: Sequence[Attempt], since: float) -> list[Attempt]:
        """Return counted failures among ``attempts`` since ``since``, oldest first."""
        failed = find_failures(attempts, max(since, self.started_ts))
        return [attempt for attempt in failed if self.counts(attempt)]


def _ended(attempt: Attempt) -> float:
    return attempt.ended_ts or 0.0


def _without_surplus(ours: Sequence[Attempt], policy: ControllerPolicy) -> list[Attempt]:
    """Return the attempts except those that exited as not needed while every slot was held."""
    holders = [held for held in ours if held.slot is not None and held.claimed_ts is not None]
    return [
        attempt
        for attempt in ours
        if attempt.outcome is not JobOutcome.NOT_NEEDED
        or not _was_full(attempt, holders, policy.max_running)
    ]


def _was_full(attempt: Attempt, holders: Sequence[Attempt], slots: int) -> bool:
    """Return True if all slots were held (± ``_NOTICED_S``) when ``attempt`` began or ended."""
    stamps = [stamp for stamp in (attempt.started_ts, attempt.ended_ts) if stamp is not None]
    return any(
        sum(
            1
            for other in holders
            if (other.claimed_ts or 0.0) <= moment + _NOTICED_S
            and (other.left_ts or other.ended_ts or inf) >= moment - _NOTICED_S
        )
        >= slots
        for moment in stamps
    )


def _early(ours: Sequence[Attempt], policy: ControllerPolicy, counted: _Failures) -> Hold | None:
    """Return a Hold of all slots if attempts failed before they claimed a slot, or None."""
    unclaimed = [attempt for attempt in ours if attempt.slot is None]
    starts = (attempt.started_ts or 0.0 for attempt in ours if attempt.slot is not None)
    failed = counted.failures_of(unclaimed, max(starts, default=0.0))
    return _hold(None, failed, policy, "before claiming a slot")


def _without_progress_anywhere(
    ours: Sequence[Attempt], ledger: Ledger, counted: _Failures
) -> list[Attempt]:
    """Return failures since the last checkpoint in any slot; none while a job makes progress."""
    if any(attempt.progressed_ts is not None and attempt.training for attempt in ledger.live):
        return []
    return counted.failures_of(ours, max(map(_last_progress, ours), default=0.0))


def _last_progress(attempt: Attempt) -> float:
    """Return the time of the attempt's last known checkpoint (exit or first), 0 without one."""
    left = attempt.left_ts if attempt.outcome in _IN_ORDER else None
    return max(attempt.progressed_ts, left or 0.0) if attempt.progressed_ts else 0.0


def _open(failed: Sequence[Attempt], policy: ControllerPolicy) -> Hold | None:
    """Return the open breaker's Hold or None; one job that Slurm could not launch opens it."""
    unlaunched = any(attempt.outcome is JobOutcome.UNLAUNCHED for attempt in failed)
    if not unlaunched and len(failed) < policy.breaker_failures:
        return None
    last = failed[-1]
    wait = FOREVER_S if is_final(last) else policy.canary_s * _jitter(last.token)
    failed_text = f"{_in_a_row(len(failed))} and no progress anywhere ({last.reason})"
    until = _ended(last) + wait
    return Hold(None, until, len(failed), f"the breaker is open: {failed_text}", open=True)


def _hold(
    slot: int | None, failed: Sequence[Attempt], policy: ControllerPolicy, place: str
) -> Hold | None:
    if not failed:
        return None
    last, count = failed[-1], len(failed)
    if is_final(last):
        final_text = f"an attempt {place} asked not to be restarted"
        cause = final_text if last.outcome is JobOutcome.REFUSED else "the scheduler takes no job"
        reason = f"{cause} ({last.reason}): mend it, then start"
        return Hold(slot, _ended(last) + FOREVER_S, count, reason)
    delay = policy.delays_s[min(count, len(policy.delays_s)) - 1] * _jitter(last.token)
    reason = f"{_in_a_row(count)} {place} ({last.reason}): next try after {delay:.0f} s"
    return Hold(slot, _ended(last) + delay, count, reason)


def _in_a_row(count: int) -> str:
    return "1 failure" if count == 1 else f"{count} failures in a row"


def _jitter(token: str) -> float:
    """Return a factor between 0.7 and 1.3 that depends on the token alone."""
    return 1.0 + _JITTER * (crc32(token.encode()) / 2**31 - 1.0)
