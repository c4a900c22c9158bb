"""Pure: jobs that give no sign of life. They are asked to leave, and ended when they do not.

Silence is measured on the controller's own clock (``SlotView.silent_s``); a job that the scheduler
has suspended is not asked for signs of life.
"""

from __future__ import annotations

from Daddy.cluster.orchestrator.actions import Action, Cancel, Notify, Signal
from Daddy.cluster.orchestrator.control_parameters import SILENCE_S, Policy
from Daddy.cluster.orchestrator.records import Attempt, Ledger, Phase, Snapshot

_STALL_S = 1800.0
"""Seconds of beats without a checkpoint that are worth a word to the person."""
_NOT_YET = ("SUSPENDED", "CONFIGURING")
"""Words for a job whose program may not run: suspended, or its node boots for it."""


def end_silent(ledger: Ledger, snapshot: Snapshot, policy: Policy, now: float) -> list[Action]:
    """Signals and cancels for whoever hangs, a word about whoever gets nowhere."""
    found = ((one, _treat(one, policy, now)) for one in ledger.live)
    told = [(one, action) for one, action in found if action is not None]
    if not told:
        return []
    excused = {job.token for job in snapshot.jobs if job.word.startswith(_NOT_YET)}
    return [action for one, action in told if one.slot is not None or one.token not in excused]


def _treat(attempt: Attempt, policy: Policy, now: float) -> Action | None:
    if attempt.job_id is None or attempt.phase is not Phase.RUNNING:
        return None
    if attempt.slot is None:
        return _unclaimed(attempt, attempt.job_id, policy, now)
    if attempt.observed.silent_ts is not None:
        return _silent(attempt, attempt.job_id, policy, now)
    since = attempt.claimed_ts
    if attempt.training and attempt.progressed_ts is None and since is not None:
        waited = now - since
        if waited >= _STALL_S:
            said = f"slot {attempt.slot} trains for {waited / 60:.0f} min without a checkpoint"
            return Notify(f"stall-{attempt.token}", said)
    return None


def _unclaimed(attempt: Attempt, job_id: int, policy: Policy, now: float) -> Action | None:
    """A job that runs and neither takes a slot nor leaves."""
    since = attempt.started_ts
    if since is None or now - since < SILENCE_S or not _again(attempt, policy, now):
        return None
    return Cancel(attempt.token, job_id, f"no slot was claimed within {SILENCE_S:g} s")


def _silent(attempt: Attempt, job_id: int, policy: Policy, now: float) -> Action | None:
    said = f"no sign of life for more than {SILENCE_S:g} s"
    signalled = attempt.requests.signalled_ts
    if signalled is None:
        return Signal(attempt.token, job_id, said)
    if now - signalled >= policy.recancel_s and _again(attempt, policy, now):
        return Cancel(attempt.token, job_id, said)
    return None


def _again(attempt: Attempt, policy: Policy, now: float) -> bool:
    cancelled = attempt.requests.cancelled_ts
    return cancelled is None or now - cancelled >= policy.recancel_s
