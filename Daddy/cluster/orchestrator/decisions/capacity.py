"""Pure: how many jobs may be there at once, and how successors wait for their slot.

A pool needs a scheduler that holds back the job too many. Whether this one does is never assumed:
a limit was read, or a job was seen waiting for it. Elsewhere each successor waits behind its
predecessor, and where waiting jobs are counted too, it comes when there is room.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from Daddy.cluster.orchestrator.control_parameters import SLOW_CLAIM_S, Policy
from Daddy.cluster.orchestrator.records import Chaining, JobState, Ledger, Site, Snapshot

_HOUR_S = 3600.0
_DAY_S = 86_400.0
_MONTH_S = 30 * _DAY_S
_DAILY = 10
"""A day may see this many times an hour's submissions."""
_RESERVE = 2
"""Places of the site's submit limit that are left to the person's own jobs."""
_OFTEN = 3
"""Slow hand-overs in a month from which all the extra successors pay."""


@dataclass(frozen=True, slots=True)
class Way:
    """How successors wait here, and how that is known."""

    chaining: Chaining
    reason: str


def way(site: Site, policy: Policy) -> Way:
    """The best way that the site's rules and the person's allow: the first line that holds."""
    cap, limit = site.max_running, site.max_submitted
    full = limit is not None and limit - _RESERVE <= policy.max_running
    wide = cap is not None and cap > policy.max_running
    table = (
        (not policy.prequeue, Chaining.LATE, "controller.prequeue is never"),
        (not site.keeps_marks, Chaining.LATE, "the site loses the marks of our jobs"),
        (site.counts_waiting, Chaining.LATE, "the site refused another waiting job"),
        (full, Chaining.LATE, f"the site counts waiting jobs: {limit} in all"),
        (policy.enforced, Chaining.POOL, "our own queue keeps the cap"),
        (site.blocks_others, Chaining.CHAIN, "a job that waits for a cap may stall the partition"),
        (policy.overlap, Chaining.OVERLAP, "controller.overlap is set"),
        (not site.enforced, Chaining.CHAIN, "no cap of the site was seen yet"),
        (wide, Chaining.CHAIN, f"the site would let {cap} jobs run"),
        (True, Chaining.POOL, "the site holds back what would be one too many"),
    )
    chaining, reason = next((how, why) for holds, how, why in table if holds)
    return Way(chaining, reason)


def ahead(
    ledger: Ledger,
    policy: Policy,
    chaining: Chaining,
    training: int,
    now: float,
    empty: int = 0,
) -> int:
    """Successors to keep in the queue: one for every job that trains, more where waits are long.

    ``empty``: slots that wait for somebody at this moment.
    """
    if chaining is Chaining.LATE:
        return 0
    base = min(training, policy.spares)
    if chaining is not Chaining.POOL:
        return base
    return base + min(policy.extra, _more(ledger, policy, empty, now))


def _more(ledger: Ledger, policy: Policy, empty: int, now: float) -> int:
    """Half of the extra ones after a slow hand-over within a month, all after a few (0110).

    They must wait already when the queue turns slow: those submitted then share its mood. Jobs
    that wait too long for a slot that is empty at this moment count like slow hand-overs.
    """
    stuck = 0
    if empty:
        stuck = sum(1 for stamp in slow_from(ledger) if stamp <= now)
    slow = stuck + sum(1 for stamp in ledger.slow_claims if now - stamp < _MONTH_S)
    return policy.extra if slow >= _OFTEN else policy.extra // 2 if slow else 0


def slow_from(ledger: Ledger) -> list[float]:
    """When each waiting job will have waited too long for a slot that is empty now.

    Never while the scheduler itself has put one back into the queue: that says nothing of waits.
    """
    if any(one.queued and one.observed.restarts for one in ledger.live):
        return []
    ever = (one for one in ledger.attempts if one.slot is not None)
    emptied = max((one.left_ts or one.ended_ts or 0.0 for one in ever), default=0.0)
    waiting = (one.intended_ts for one in ledger.live if one.queued)
    return [max(stamp, emptied) + SLOW_CLAIM_S for stamp in waiting]


def limit_refused(ledger: Ledger, others: int = 0) -> dict[str, object]:
    """What is learnt when one job too many was refused: how many fit, or that none may wait.

    ``others``: the person's own jobs, which the site counts as well.
    """
    fitting = [one for one in ledger.live if one.job_id is not None]
    if others or any(one.queued for one in fitting):
        return {"max_submitted": len(fitting) + others}
    return {"counts_waiting": True}


def room(
    ledger: Ledger, snapshot: Snapshot, policy: Policy, fill: int, now: float
) -> tuple[int, str]:
    """How many jobs may be submitted now, whatever is wished; and what limits them.

    Three limits that do not trust each other: our own count, the site's, and a rate.
    """
    own = policy.max_running + policy.spares + policy.extra - len(ledger.live)
    limits = [(own, "our own count of jobs")]
    if ledger.site.max_submitted is not None:
        others = sum(1 for job in snapshot.others if job.state is not JobState.ENDED)
        places = ledger.site.max_submitted - len(ledger.live) - others
        kept = max(fill, places - _RESERVE)
        limits.append((min(places, kept), f"the site's {ledger.site.max_submitted} jobs"))
    limits.append((_rate(ledger, policy, now), "the rate of submissions"))
    count, why = min(limits)
    return max(0, count), why


def _rate(ledger: Ledger, policy: Policy, now: float) -> int:
    """Submissions that the hour and the day still allow."""
    hour, day = _lately(ledger, now)
    return min(policy.hourly - len(hour), _DAILY * policy.hourly - len(day))


def _lately(ledger: Ledger, now: float) -> tuple[list[float], list[float]]:
    """When the attempts of the last hour and of the last day were intended, oldest first.

    Attempts stand in that order. Those of a clock that was ahead for a while do not count: they
    would until it is that late.
    """
    stamps = takewhile(lambda one: one > now - _DAY_S, _newest_first(ledger))
    day = sorted(stamp for stamp in stamps if stamp <= now)
    return day[bisect_right(day, now - _HOUR_S) :], day


def _newest_first(ledger: Ledger) -> Iterator[float]:
    return (one.intended_ts for one in reversed(ledger.attempts))


def rate_frees_at(ledger: Ledger, policy: Policy, now: float) -> float | None:
    """When the rate allows another submission; None where it does now."""
    if len(ledger.attempts) < policy.hourly or _rate(ledger, policy, now) > 0:
        return None
    hour, day = _lately(ledger, now)
    if len(hour) >= policy.hourly:
        return hour[-policy.hourly] + _HOUR_S
    return day[-_DAILY * policy.hourly] + _DAY_S
