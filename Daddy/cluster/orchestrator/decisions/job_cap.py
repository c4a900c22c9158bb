"""Pure. Decides how many jobs may exist at once, and how successors wait for their slot.

A pool of successors needs a scheduler that keeps jobs over the cap waiting. The controller relies
on that only after it read such a limit or saw a job wait for one. On other sites each successor
waits behind its predecessor; if the limit counts waiting jobs, it is submitted after a job's end.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile

from Daddy.cluster.orchestrator.control_parameters import SLOW_CLAIM_S, ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import (
    Chaining,
    DesiredRun,
    Ledger,
    SiteLimits,
)
from Daddy.cluster.orchestrator.decisions.plan_input import PlanInput

_HOUR_S = 3600.0
_DAY_S = 86_400.0
_MONTH_S = 30 * _DAY_S
_DAILY = 10
"""Submissions allowed in a day, as a multiple of those in an hour."""
_RESERVE = 2
"""Jobs under the site's submit limit that are left for the person's own use."""
_OFTEN = 3
"""Slow hand-overs in a month from which all extra successors are submitted."""


def limit_to_open_slots(policy: ControllerPolicy, desired: DesiredRun) -> ControllerPolicy:
    """Return ``policy`` with fewer running jobs, by the slots that the person stopped."""
    closed = desired.slots - len(desired.open_slots)
    return replace(policy, max_running=max(0, policy.max_running - closed)) if closed else policy


def choose_chaining(site: SiteLimits, policy: ControllerPolicy) -> tuple[Chaining, str]:
    """Return how successors wait (pool, chain, late) under the site's limits, and the reason."""
    cap, limit = site.max_running, site.max_submitted
    full = limit is not None and limit - _RESERVE <= policy.max_running
    wide = cap is not None and cap > policy.max_running
    table = (
        (not site.keeps_marks, Chaining.LATE, "the site loses the names of our jobs"),
        (site.counts_waiting, Chaining.LATE, "the site refused another waiting job"),
        (full, Chaining.LATE, f"the site counts waiting jobs: {limit} in all"),
        (policy.enforced and wide, Chaining.LATE, f"our own queue would let {cap} jobs run"),
        (policy.enforced, Chaining.POOL, "our own queue enforces the cap"),
        (site.blocks_others, Chaining.CHAIN, "a job that waits for a cap may stall the partition"),
        (not site.enforced, Chaining.CHAIN, "no cap of the site is known yet"),
        (wide, Chaining.CHAIN, f"the site would let {cap} jobs run"),
    )
    pool = (Chaining.POOL, "the site keeps jobs over the cap waiting")
    return next(((chaining, why) for holds, chaining, why in table if holds), pool)


def successor_count(inputs: PlanInput, chaining: Chaining, training: int) -> int:
    """Return the number of successors to keep queued: one per job, more if waits are long."""
    policy = inputs.policy
    if chaining is Chaining.LATE:
        return 0
    base = min(training, policy.spares)
    return base + _extra_successors(inputs) if chaining is Chaining.POOL else base


def _extra_successors(inputs: PlanInput) -> int:
    """Return half of ``policy.extra`` after one slow hand-over in a month, all after three.

    Extra successors must be queued before the queue turns slow: jobs submitted later wait as long
    as the first (decision 24). A job that waits too long for an empty slot counts as slow, too.
    """
    ledger, now, extra = inputs.ledger, inputs.now, inputs.policy.extra
    stuck = sum(1 for stamp in slow_wait_times(ledger) if stamp <= now) if inputs.fill else 0
    slow = stuck + sum(1 for stamp in ledger.slow_claims if now - stamp < _MONTH_S)
    return extra if slow >= _OFTEN else extra // 2 if slow else 0


def slow_wait_times(ledger: Ledger) -> list[float]:
    """Return, per job that may start, the time when its wait is too long; [] after a requeue."""
    if any(attempt.queued and attempt.observed.restarts for attempt in ledger.live):
        return []
    ever = (attempt for attempt in ledger.attempts if attempt.slot is not None)
    emptied = max((held.left_ts or held.ended_ts or 0.0 for held in ever), default=0.0)
    ours = (job for job in ledger.live if job.queued and not job.requests.held)
    return [max(job.intended_ts, job.requests.released_ts, emptied) + SLOW_CLAIM_S for job in ours]


def limits_after_refusal(ledger: Ledger, others: int = 0) -> dict[str, object]:
    """Return the limit that a refusal proves; ``others``: number of the person's other jobs."""
    fitting = [attempt for attempt in ledger.live if attempt.job_id is not None]
    if others or any(attempt.queued for attempt in fitting):
        return {"max_submitted": len(fitting) + others}
    return {"counts_waiting": True}


def submit_allowance(inputs: PlanInput) -> tuple[int, str]:
    """Return the number of jobs that may be submitted now, and the limit that sets the number."""
    ledger, policy = inputs.ledger, inputs.policy
    own = policy.max_running + policy.spares + policy.extra - len(ledger.live)
    limits = [(own, "our own count of jobs")]
    most = ledger.site.max_submitted
    if most is not None:
        places = most - len(ledger.live) - inputs.snapshot.others_live
        allowed = max(inputs.fill, places - _RESERVE)
        limits.append((min(places, allowed), f"the site's {most} jobs"))
    limits.append((_rate(ledger, policy, inputs.now), "the rate of submissions"))
    count, why = min(limits)
    return max(0, count), why


def _windows(
    ledger: Ledger, policy: ControllerPolicy, now: float
) -> Iterator[tuple[float, int, list[float]]]:
    """Yield, for an hour and a day, its seconds, its limit and its submissions, oldest first."""
    newest_first = (attempt.intended_ts for attempt in reversed(ledger.attempts))
    recent = takewhile(lambda stamp: stamp > now - _DAY_S, newest_first)
    day = sorted(stamp for stamp in recent if stamp <= now)  # no time of a clock that was ahead
    yield _HOUR_S, policy.hourly, [stamp for stamp in day if stamp > now - _HOUR_S]
    yield _DAY_S, _DAILY * policy.hourly, day


def _rate(ledger: Ledger, policy: ControllerPolicy, now: float) -> int:
    """Return the number of submissions that the hourly and daily limits still allow."""
    return min(most - len(made) for _, most, made in _windows(ledger, policy, now))


def next_submit_time(ledger: Ledger, policy: ControllerPolicy, now: float) -> float | None:
    """Return the time when the hourly and daily limits allow a submission; None: now."""
    if len(ledger.attempts) < policy.hourly:
        return None
    for span_s, most, made in _windows(ledger, policy, now):
        if len(made) >= most:
            return made[-most] + span_s
    return None
