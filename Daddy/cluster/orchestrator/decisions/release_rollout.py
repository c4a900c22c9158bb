"""Pure. Decides which release runs in which slot.

A new release is tried by one slot; the others take it at their next hand-over once it has made a
checkpoint of its own. One whose attempts die without that is given up for the last that was proven.
"""

from __future__ import annotations

from dataclasses import dataclass

from Daddy.cluster.orchestrator.controller_records import Intent, JobOutcome, Ledger
from Daddy.cluster.orchestrator.decisions.circuit_breaker import find_failures, is_final

_TRIES = 2
"""Failures without progress after which a new release is given up."""


@dataclass(frozen=True, slots=True)
class ReleaseRollout:
    """The releases to run: ``trial`` in slot ``slot`` and ``release`` elsewhere."""

    release: str
    trial: str | None = None
    slot: int | None = None
    given_up: frozenset[str] = frozenset()
    reason: str = ""

    def release_for(self, slot: int) -> str:
        """The release for a slot."""
        return self.trial if self.trial is not None and slot == self.slot else self.release


def choose_releases(desired: Intent, ledger: Ledger) -> ReleaseRollout:
    """The release that each slot is to run next."""
    wanted = desired.release
    good = next((release for release in reversed(ledger.proven) if release != wanted), None)
    if not wanted or wanted in ledger.proven or good is None:
        return ReleaseRollout(wanted)
    tried = (attempt for attempt in ledger.attempts if attempt.release == wanted)
    failed = find_failures(tried, ledger.started_ts)
    damning = any(is_final(one) or one.outcome is JobOutcome.UNLAUNCHED for one in failed)
    if damning or len(failed) >= _TRIES:
        said = f"release {wanted} is given up for {good}: {failed[-1].reason}"
        return ReleaseRollout(good, given_up=frozenset({wanted}), reason=said)
    slot = _trial_slot(wanted, ledger, desired.slots)
    said = f"release {wanted} is tried in slot {slot}, the others run {good}"
    return ReleaseRollout(good, wanted, slot, reason=said)


def _trial_slot(wanted: str, ledger: Ledger, slots: int) -> int:
    """The slot that runs it already; else an empty one; else the next to be handed over."""
    training = {one.slot: one for one in ledger.live if one.training and one.slot is not None}
    running = [slot for slot, attempt in training.items() if attempt.release == wanted]
    empty = [slot for slot in range(slots) if slot not in training]
    if running or empty:
        return [*running, *empty][0]
    return min(training, key=lambda slot: (training[slot].started_ts or 0.0, slot))
