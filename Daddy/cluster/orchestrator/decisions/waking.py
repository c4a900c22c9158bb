"""Pure: when to look again. Rarely while all is well, soon while something is about to change.

Between two looks the controller watches small files: a claim or a goodbye wakes it at once, so a
look costs the scheduler nothing but what only the scheduler can tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from Daddy.cluster.orchestrator.control_parameters import HOT_FOR_S, SILENCE_S, Policy
from Daddy.cluster.orchestrator.decisions import capacity
from Daddy.cluster.orchestrator.decisions.view import View
from Daddy.cluster.orchestrator.records import Attempt, JobState, Mode, Phase


def wake_at(view: View, *, busy: bool) -> float:
    """The next look at the latest, wall seconds."""
    policy, now = view.policy, view.now
    if (_is_recent(view) and (busy or _is_moving(view))) or _about_to_end(view):
        return now + policy.hot_pass_s
    if view.desired.mode is Mode.RUN and view.fill == 0 and not busy:
        return now + max(policy.quiet_pass_s, policy.pass_s)
    return now + policy.pass_s


def _is_recent(view: View) -> bool:
    """Somebody was submitted a moment ago: the last one, as attempts stand in that order."""
    live = view.ledger.live
    return bool(live) and view.now - live[-1].intended_ts < HOT_FOR_S


def _is_moving(view: View) -> bool:
    """Not everybody has a slot."""
    return len(view.training) < len(view.ledger.live)


def _about_to_end(view: View) -> bool:
    """A running job is near its real end, by the scheduler's own clock."""
    near = HOT_FOR_S / 2
    return any(
        job.state is JobState.RUNNING
        and job.ends_ts is not None
        and abs(job.ends_ts - view.now) < near
        for job in view.snapshot.jobs
    )


def due_at(view: View) -> float:
    """When the decision changes although nothing new is seen; infinity where it never does."""
    stamps = [hold.until for hold in view.holds]
    frees = capacity.rate_frees_at(view.ledger, view.policy, view.now)
    if frees is not None:
        stamps.append(frees)
    for attempt in view.ledger.live:
        stamps += _stamps(attempt, view.policy)
    if view.fill:
        stamps += capacity.slow_from(view.ledger)
    return min((stamp for stamp in stamps if stamp > view.now), default=inf)


def _stamps(attempt: Attempt, policy: Policy) -> Iterator[float]:
    seen, asked = attempt.observed, attempt.requests
    if seen.absences:
        yield seen.absent_ts + policy.absence_gap_s
    if attempt.phase is Phase.INTENT:
        yield seen.answered_ts or attempt.intended_ts + policy.answer_s
    if asked.cancelled_ts is not None:
        yield asked.cancelled_ts + policy.recancel_s
    elif asked.signalled_ts is not None:
        yield asked.signalled_ts + policy.recancel_s
        yield asked.signalled_ts + policy.drain_s
    if attempt.phase is Phase.RUNNING and attempt.slot is None and attempt.started_ts:
        yield attempt.started_ts + SILENCE_S
