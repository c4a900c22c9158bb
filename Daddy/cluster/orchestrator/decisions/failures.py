"""Pure: what counts as a failure. Checkpoint progress counts, not exits.

An end by wall time, drain, preemption or a person's ``scancel`` is no failure, and neither is a
crash after a checkpoint of its own term.
"""

from __future__ import annotations

from collections.abc import Iterable

from Daddy.cluster.orchestrator.records import Attempt, Outcome, Phase

REFUSED_FOR_GOOD = "refused for good"
REFUSED = "refused"
"""How the reason of an attempt begins that the scheduler would not take."""

_WITHOUT_PROGRESS = frozenset(
    {Outcome.CRASHED, Outcome.HUNG, Outcome.UNLAUNCHED, Outcome.DONE, Outcome.NOT_NEEDED}
)


def is_failure(attempt: Attempt) -> bool:
    """Whether the attempt ended as nobody wanted, without having got anywhere."""
    if attempt.phase is Phase.REJECTED:
        return attempt.reason.startswith(REFUSED)
    if attempt.outcome is Outcome.REFUSED:
        return True
    return attempt.outcome in _WITHOUT_PROGRESS and attempt.progressed_ts is None


def is_final(attempt: Attempt) -> bool:
    """Whether trying the same again cannot help."""
    return attempt.outcome is Outcome.REFUSED or attempt.reason.startswith(REFUSED_FOR_GOOD)


def failures(attempts: Iterable[Attempt], since: float) -> list[Attempt]:
    """Failures that ended at or after ``since`` (wall seconds), oldest first."""
    failed = [one for one in attempts if (one.ended_ts or 0.0) >= since and is_failure(one)]
    return sorted(failed, key=lambda one: one.ended_ts or 0.0)
