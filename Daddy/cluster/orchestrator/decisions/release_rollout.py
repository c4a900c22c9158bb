"""Pure. Decides which release runs in which slot.

One slot tries a new release; once that has written a checkpoint, the other slots run it from their
next hand-over. After two failures without one, the last release with a checkpoint runs instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from Daddy.cluster.orchestrator.controller_types import DesiredRun, JobOutcome, Ledger
from Daddy.cluster.orchestrator.decisions.circuit_breaker import find_failures, is_final

_TRIES = 2
"""Failures without progress after which a new release is given up."""


@dataclass(frozen=True, slots=True)
class ReleaseRollout:
    """Names the releases to run: ``trial`` in slot ``slot``, ``release`` in all others."""

    release: str
    trial: str | None = None
    slot: int | None = None
    given_up: frozenset[str] = frozenset()
    reason: str = ""

    def release_for(self, slot: int) -> str:
        """Return the release to run in ``slot``."""
        return self.trial if self.trial is not None and slot == self.slot else self.release


def choose_releases(desired: DesiredRun, ledger: Ledger) -> ReleaseRollout:
    """Choose the release that each slot runs at its next start."""
    wanted = desired.release
    proven = next((release for release in reversed(ledger.proven) if release != wanted), None)
    if not wanted or wanted in ledger.proven or proven is None:
        return ReleaseRollout(wanted)
    tried = (attempt for attempt in ledger.attempts if attempt.release == wanted)
    failed = find_failures(tried, ledger.start_seen_ts)
    unlaunched = JobOutcome.UNLAUNCHED
    damning = any(is_final(attempt) or attempt.outcome is unlaunched for attempt in failed)
    if damning or len(failed) >= _TRIES:
        reason = f"release {wanted} is given up for {proven}: {failed[-1].reason}"
        return ReleaseRollout(proven, given_up=frozenset({wanted}), reason=reason)
    slot = _trial_slot(wanted, ledger, desired.open_slots)
    if slot is None:
        return ReleaseRollout(wanted)
    reason = f"release {wanted} is tried in slot {slot}, the others run {proven}"
    return ReleaseRollout(proven, wanted, slot, reason=reason)


def _trial_slot(wanted: str, ledger: Ledger, slots: Sequence[int]) -> int | None:
    """Return the slot that runs ``wanted``, else an empty slot, else the longest-running.

    None if every slot is stopped.
    """
    jobs = (job for job in ledger.live if job.training and job.slot is not None)
    training = {job.slot: job for job in jobs if job.slot in slots}
    running = [slot for slot, attempt in training.items() if attempt.release == wanted]
    empty = [slot for slot in slots if slot not in training]
    if running or empty:
        return [*running, *empty][0]
    return min(training, key=lambda slot: (training[slot].started_ts or 0.0, slot), default=None)
