"""Pure: how long a slot stays empty after failures. Checkpoint progress counts, not exits.

A failure is an end without any checkpoint progress that nobody asked for; wall time, drains and
preemption never count. Failures of one slot hold that slot; attempts that die before they claim
one hold all. A slot's count starts again with the first checkpoint that gets written there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from Daddy.cluster.orchestrator.records import Attempt, Ledger, Outcome, Phase, Policy

FOREVER_S = 10 * 365 * 86400.0
"""Seconds a refused slot is held: until the person says ``start`` again."""


REFUSED_FOR_GOOD = "refused for good"
REFUSED = "refused"
"""How the reason of an attempt begins that the scheduler would not take."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A slot (None: every empty slot) that must stay empty until ``until``, wall seconds."""

    slot: int | None
    until: float
    failures: int
    reason: str


def holds(ledger: Ledger, policy: Policy, now: float) -> tuple[Hold, ...]:
    """Holds that are in force at ``now``."""
    by_slot: dict[int | None, list[Attempt]] = {}
    for attempt in ledger.attempts:
        by_slot.setdefault(attempt.slot, []).append(attempt)
    # a job that claimed a slot proves that jobs can start
    begun = max(
        (one.started_ts or 0.0 for one in ledger.attempts if one.slot is not None), default=0
    )
    found = []
    for slot, attempts in by_slot.items():
        fine = begun if slot is None else max(one.progressed_ts or 0.0 for one in attempts)
        failures = _failures(attempts, max(fine, ledger.started_ts))
        found.append(_hold(slot, failures, policy))
    return tuple(hold for hold in found if hold is not None and hold.until > now)


def _hold(slot: int | None, failures: Sequence[Attempt], policy: Policy) -> Hold | None:
    if not failures:
        return None
    last, count = failures[-1], len(failures)
    ended = last.ended_ts or 0.0
    where = "before claiming a slot" if slot is None else f"in slot {slot}"
    if last.outcome is Outcome.REFUSED or last.reason.startswith(REFUSED_FOR_GOOD):
        said = f"an attempt {where} asked not to be restarted ({last.reason}): mend it, then start"
        return Hold(slot, ended + FOREVER_S, count, said)
    delay = policy.delays_s[min(count, len(policy.delays_s)) - 1]
    said = f"{count} failures in a row {where} ({last.reason}): next try after {delay:g} s"
    return Hold(slot, ended + delay, count, said)


def _failures(attempts: Sequence[Attempt], since: float) -> list[Attempt]:
    """Failures there since the last progress there and since ``start``, oldest first."""
    failed = [one for one in attempts if _is_failure(one) and (one.ended_ts or 0.0) >= since]
    return sorted(failed, key=lambda one: one.ended_ts or 0.0)


def _is_failure(attempt: Attempt) -> bool:
    if attempt.phase is Phase.REJECTED:
        return attempt.reason.startswith(REFUSED)
    if attempt.outcome is Outcome.REFUSED:
        return True
    unasked = attempt.outcome in (Outcome.CRASHED, Outcome.NOT_NEEDED, Outcome.DONE)
    return unasked and attempt.progressed_ts is None
