"""Pure: how long places stay empty after failures.

Failures of one slot hold that slot, later and later. Attempts that die before they claim one, and a
fleet in which nobody gets anywhere, hold all; after enough of these in a row the breaker is open:
one canary at a time, until a canary makes progress. A slot's count starts again with the first
checkpoint that is written there, everything with the person's next ``start``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import inf
from zlib import crc32

from Daddy.cluster.orchestrator.control_parameters import Policy
from Daddy.cluster.orchestrator.decisions.failures import failures, is_failure, is_final
from Daddy.cluster.orchestrator.records import Attempt, Ledger, Outcome

FOREVER_S = 10 * 365 * 86400.0
"""Seconds that what cannot be helped by waiting is held: until the person says ``start`` again."""
_NOTICED_S = 60.0
"""Claims and goodbyes are noticed that much late at most, while a controller is alive."""
_IN_ORDER = (None, Outcome.DRAINED, Outcome.DONE)
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


def holds(
    ledger: Ledger, policy: Policy, now: float, given_up: Collection[str] = ()
) -> tuple[Hold, ...]:
    """Holds that matter at ``now``: those in force, and an open breaker in any case.

    Failures of releases in ``given_up`` do not count: nothing runs them any more.
    """
    counted = _Counted(ledger.started_ts, now - policy.forget_s)
    over = (one for one in ledger.over if one.outcome is not Outcome.DRAINED)  # nearly all drain
    suspect = {one.slot for one in over if one.release not in given_up and counted.may(one)}
    if not suspect:
        return ()
    ours = [one for one in ledger.attempts if one.release not in given_up]
    ours = _without_surplus(ours, policy)
    by_slot: dict[int, list[Attempt]] = defaultdict(list)
    for one in ours:
        if one.slot in suspect and one.slot is not None:
            by_slot[one.slot].append(one)
    found = [_fleet(ours, ledger, policy, counted)]
    found += [_slot(slot, by_slot[slot], policy, counted) for slot in sorted(by_slot)]
    return tuple(one for one in found if one is not None and (one.open or one.until > now))


def _without_surplus(ours: Sequence[Attempt], policy: Policy) -> list[Attempt]:
    """Without jobs that found every slot filled: late answers of sbatch, and no failures."""
    took = [one for one in ours if one.slot is not None and one.claimed_ts is not None]
    return [
        one
        for one in ours
        if one.outcome is not Outcome.NOT_NEEDED or not _was_full(one, took, policy.max_running)
    ]


def _was_full(one: Attempt, took: Sequence[Attempt], slots: int) -> bool:
    """Whether all slots were held about when ``one`` ran, as far as was noticed."""
    moments = [stamp for stamp in (one.started_ts, one.ended_ts) if stamp is not None]
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


@dataclass(frozen=True, slots=True)
class _Counted:
    """From when failures count; what asked not to be restarted is not forgotten by waiting."""

    started_ts: float
    forgotten_ts: float

    def may(self, one: Attempt) -> bool:
        """Whether an attempt may count as a failure of its slot."""
        late = (one.ended_ts or 0.0) > self.forgotten_ts
        return (late or is_final(one)) and is_failure(one)

    def of(self, attempts: Sequence[Attempt], fine: float) -> list[Attempt]:
        """Failures among ``attempts`` after all was ``fine``, oldest first."""
        failed = failures(attempts, max(fine, self.started_ts))
        return [one for one in failed if is_final(one) or (one.ended_ts or 0) > self.forgotten_ts]


def _slot(slot: int, here: Sequence[Attempt], policy: Policy, counted: _Counted) -> Hold | None:
    fine = max(one.progressed_ts or 0.0 for one in here)
    return _hold(slot, counted.of(here, fine), policy, f"in slot {slot}")


def _fleet(
    ours: Sequence[Attempt], ledger: Ledger, policy: Policy, counted: _Counted
) -> Hold | None:
    """Of attempts that never claimed a slot; or of all, where nobody gets anywhere."""
    unclaimed = [one for one in ours if one.slot is None]
    begun = max((one.started_ts or 0.0 for one in ours if one.slot is not None), default=0.0)
    early = _hold(None, counted.of(unclaimed, begun), policy, "before claiming a slot")
    failed = _nobody_gets_anywhere(ours, ledger, counted)
    return _open(failed, policy) if _is_open(failed, policy) else early


def _nobody_gets_anywhere(
    ours: Sequence[Attempt], ledger: Ledger, counted: _Counted
) -> list[Attempt]:
    """All failures since the last progress anywhere; none while somebody trains with progress."""
    if _somebody_gets_somewhere(ledger):
        return []
    return counted.of(ours, max((_got_on_until(one) for one in ours), default=0.0))


def _got_on_until(one: Attempt) -> float:
    """The first checkpoint is what is written down; who leaves in order writes another.

    A term is also ended by a crash, and by whoever finds a silent learner: these wrote nothing.
    """
    left = one.left_ts if one.outcome in _IN_ORDER else None
    return max(one.progressed_ts, left or 0.0) if one.progressed_ts else 0.0


def _somebody_gets_somewhere(ledger: Ledger) -> bool:
    return any(one.progressed_ts is not None and one.training for one in ledger.live)


def tries_left(
    ledger: Ledger, policy: Policy, now: float, given_up: Collection[str] = ()
) -> int | None:
    """How many more may fail before the breaker opens; None while there is nothing to fear."""
    if _somebody_gets_somewhere(ledger):
        return None
    ours = [one for one in ledger.attempts if one.release not in given_up]
    counted = _Counted(ledger.started_ts, now - policy.forget_s)
    failed = _nobody_gets_anywhere(_without_surplus(ours, policy), ledger, counted)
    return max(1, policy.breaker_failures - len(failed)) if failed else None


def _is_open(failed: Sequence[Attempt], policy: Policy) -> bool:
    unlaunched = any(one.outcome is Outcome.UNLAUNCHED for one in failed)
    return unlaunched or len(failed) >= policy.breaker_failures


def _open(failed: Sequence[Attempt], policy: Policy) -> Hold:
    last = failed[-1]
    until = (last.ended_ts or 0.0) + policy.canary_s * _jitter(last.token)
    if is_final(last):
        until = (last.ended_ts or 0.0) + FOREVER_S
    said = f"{_in_a_row(len(failed))} and no progress anywhere ({last.reason})"
    return Hold(None, until, len(failed), f"the breaker is open: {said}", open=True)


def _hold(slot: int | None, failed: Sequence[Attempt], policy: Policy, where: str) -> Hold | None:
    if not failed:
        return None
    last, count = failed[-1], len(failed)
    ended = last.ended_ts or 0.0
    if is_final(last):
        asked = f"an attempt {where} asked not to be restarted"
        who = asked if last.outcome is Outcome.REFUSED else "the scheduler takes no job"
        said = f"{who} ({last.reason}): mend it, then start"
        return Hold(slot, ended + FOREVER_S, count, said)
    delay = policy.delays_s[min(count, len(policy.delays_s)) - 1] * _jitter(last.token)
    said = f"{_in_a_row(count)} {where} ({last.reason}): next try after {delay:.0f} s"
    return Hold(slot, ended + delay, count, said)


def _in_a_row(count: int) -> str:
    return "1 failure" if count == 1 else f"{count} failures in a row"


def _jitter(token: str) -> float:
    """A factor around one that is always the same for one failure."""
    return 1.0 + _JITTER * (crc32(token.encode()) / 2**31 - 1.0)
