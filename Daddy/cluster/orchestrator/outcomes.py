"""Pure: how an attempt ended, from the scheduler's words, the exit code or its own goodbye."""

from __future__ import annotations

from Daddy.cluster.orchestrator.records import Attempt, Outcome, QueueJob

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


def outcome_of(attempt: Attempt, row: QueueJob, claimed: bool) -> Outcome:
    """What the end in ``row`` means, of an attempt that ``claimed`` a slot or did not get there.

    The first line that fits wins.
    """
    if attempt.silent_ts is not None:
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
    return Outcome.CRASHED if attempt.cancelled_ts is None else Outcome.CANCELLED


def from_goodbye(goodbye: str) -> Outcome:
    """What its last words mean where nobody remembers how the job ended."""
    return Outcome.DONE if goodbye.startswith("total_steps") else Outcome.DRAINED
