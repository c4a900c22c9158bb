"""Pure. Decides how many jobs may exist at once, and how successors wait for their slot.

A pool needs a scheduler that holds back the job too many. That is never assumed: a limit was read,
or a job was seen waiting for it. Elsewhere each successor waits behind its predecessor, and where
waiting jobs are counted too, it comes when there is room.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from Daddy.cluster.orchestrator.control_parameters import SLOW_CLAIM_S, ControllerPolicy
from Daddy.cluster.orchestrator.controller_records import Chaining, Ledger, SiteLimits
from Daddy.cluster.orchestrator.decisions.plan_input import PlanInput

_HOUR_S = 3600.0
_DAY_S = 86_400.0
_MONTH_S = 30 * _DAY_S
_DAILY = 10
"""A day may see this many times an hour's submissions."""
_RESERVE = 2
"""Places of the site's submit limit that are left to the person's own jobs."""
_OFTEN = 3
"""Slow hand-overs in a month from which all the extra successors pay."""


def choose_chaining(site: SiteLimits, policy: ControllerPolicy) -> tuple[Chaining, str]:
    """The best chaining that the site's rules and the person's allow, and the reason.

    The first line that holds wins.
    """
    cap, limit = site.max_running, site.max_submitted
    full = limit is not None and limit - _RESERVE <= policy.max_running
    wide = cap is not None and cap > policy.max_running
    table = (
        (not site.keeps_marks, Chaining.LATE, "the site loses the marks of our jobs"),
        (site.counts_waiting, Chaining.LATE, "the site refused another waiting job"),
        (full, Chaining.LATE, f"the site counts waiting jobs: {limit} in all"),
        (policy.enforced, Chaining.POOL, "our own queue keeps the cap"),
        (site.blocks_others, Chaining.CHAIN, "a job that waits for a cap may stall the partition"),
        (not site.enforced, Chaining.CHAIN, "no cap of the site was seen yet"),
        (wide, Chaining.CHAIN, f"the site would let {cap} jobs run"),
    )
    pool = (Chaining.POOL, "the site holds back what would be one too many")
    return next(((chaining, why) for holds, chaining, why in table if holds), pool)


def successor_count(inputs: PlanInput, chaining: Chaining, training: int) -> int:
    """Successors to keep in the queue: one for every job that trains, more where waits are long."""
    policy = inputs.policy
    if chaining is Chaining.LATE:
        return 0
    base = min(training, policy.spares)
    return base + _more(inputs) if chaining is Chaining.POOL else base


def _more(inputs: PlanInput) -> int:
    """Half of the extra ones after a slow hand-over within a month, all after a few (decision 24).

    They must wait already when the queue turns slow: those submitted then share its mood. Jobs
    that wait too long for a slot that is empty at this moment count like slow hand-overs.
    """
    ledger, now, extra = inputs.ledger, inputs.now, inputs.policy.extra
    stuck = sum(1 for stamp in slow_wait_times(ledger) if stamp <= now) if inputs.fill else 0
    slow = stuck + sum(1 for stamp in ledger.slow_claims if now - stamp < _MONTH_S)
    return extra if slow >= _OFTEN else extra // 2 if slow else 0


def slow_wait_times(ledger: Ledger) -> list[float]:
    """Times from which each waiting job has waited too long for a slot that is empty now.

    None while the scheduler itself has put a job back into the queue: that says nothing of waits.
    """
    if any(attempt.queued and attempt.observed.restarts for attempt in ledger.live):
        return []
    ever = (attempt for attempt in ledger.attempts if attempt.slot is not None)
    emptied = max((one.left_ts or one.ended_ts or 0.0 for one in ever), default=0.0)
    waiting = (attempt.intended_ts for attempt in ledger.live if attempt.queued)
    return [max(stamp, emptied) + SLOW_CLAIM_S for stamp in waiting]


def limits_after_refusal(ledger: Ledger, others: int = 0) -> dict[str, object]:
    """The lesson of a refusal of one job too many: how many fit, or that none may wait.

    ``others``: the person's own jobs, which the site counts as well.
    """
    fitting = [attempt for attempt in ledger.live if attempt.job_id is not None]
    if others or any(attempt.queued for attempt in fitting):
        return {"max_submitted": len(fitting) + others}
    return {"counts_waiting": True}


def submit_allowance(inputs: PlanInput) -> tuple[int, str]:
    """The number of jobs that may be submitted now at most, and the limit that sets it.

    Three limits that do not trust each other: our own count, the site's, and a rate.
    """
    ledger, policy = inputs.ledger, inputs.policy
    own = policy.max_running + policy.spares + policy.extra - len(ledger.live)
    limits = [(own, "our own count of jobs")]
    most = ledger.site.max_submitted
    if most is not None:
        places = most - len(ledger.live) - inputs.snapshot.others_live
        kept = max(inputs.fill, places - _RESERVE)
        limits.append((min(places, kept), f"the site's {most} jobs"))
    limits.append((_rate(ledger, policy, inputs.now), "the rate of submissions"))
    count, why = min(limits)
    return max(0, count), why


def _windows(
    ledger: Ledger, policy: ControllerPolicy, now: float
) -> Iterator[tuple[float, int, list[float]]]:
    """An hour and a day: seconds, submissions allowed in them, and those made, oldest first.

    Those of a clock that was ahead for a while do not count: they would until it is that late.
    """
    newest_first = (attempt.intended_ts for attempt in reversed(ledger.attempts))
    recent = takewhile(lambda stamp: stamp > now - _DAY_S, newest_first)
    day = sorted(stamp for stamp in recent if stamp <= now)
    yield _HOUR_S, policy.hourly, [stamp for stamp in day if stamp > now - _HOUR_S]
    yield _DAY_S, _DAILY * policy.hourly, day


def _rate(ledger: Ledger, policy: ControllerPolicy, now: float) -> int:
    """Submissions that the hour and the day still allow."""
    return min(most - len(made) for _, most, made in _windows(ledger, policy, now))


def next_submit_time(ledger: Ledger, policy: ControllerPolicy, now: float) -> float | None:
    """The time from which the rate allows another submission; None where it does now."""
    if len(ledger.attempts) < policy.hourly:
        return None
    for span_s, most, made in _windows(ledger, policy, now):
        if len(made) >= most:
            return made[-most] + span_s
    return None
