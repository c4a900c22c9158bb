"""Pure. Decides which nodes are left out, and for how long.

Two ends without progress on one node within a day are two strikes, and a job that worked there to
its end afterwards forgives them: such a node is better than none. Releases that never made
progress anywhere say nothing about nodes, and never more than a few nodes are left out at once, nor
all on which anything ever worked: a cluster of which everything is excluded trains nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from Daddy.cluster.orchestrator.controller_records import Attempt, JobOutcome, Ledger
from Daddy.cluster.orchestrator.decisions.circuit_breaker import is_failure
from Daddy.cluster.orchestrator.plan_actions import Action, Amend

_STRIKES = 2
_STRIKE_S = 86_400.0
"""Seconds for which a node that failed twice is left out."""
_MOST = 3
"""Nodes left out at once."""
_WELL = (JobOutcome.DONE, JobOutcome.DRAINED)


def excluded_nodes(ledger: Ledger, now: float) -> tuple[str, ...]:
    """Names of the nodes to leave out now, sorted."""
    strikes = _strikes(ledger, now - _STRIKE_S)
    bad = [node for node, stamps in strikes.items() if len(stamps) >= _STRIKES]
    worst = sorted(bad, key=lambda node: (-max(strikes[node]), node))
    chosen = worst[:_MOST]
    if not chosen:
        return ()
    good = {one.node for one in ledger.attempts if one.node and one.progressed_ts is not None}
    while chosen and good and good <= set(chosen):
        chosen.pop()
    return tuple(sorted(chosen))


def _strikes(ledger: Ledger, since: float) -> dict[str, list[float]]:
    """Times of each node's failures that are neither old nor forgiven."""
    failed: dict[str, list[float]] = defaultdict(list)
    forgiven: dict[str, float] = {}
    for attempt in ledger.over:
        node, ended = attempt.node, attempt.ended_ts or 0.0
        if ended <= since or not node:
            continue
        if attempt.outcome in _WELL and attempt.progressed_ts is not None:
            forgiven[node] = max(ended, forgiven.get(node, 0.0))
        elif _is_strike(attempt, ledger):
            failed[node].append(ended)
    return {
        node: [at for at in stamps if at > forgiven.get(node, 0.0)]
        for node, stamps in failed.items()
    }


def _is_strike(attempt: Attempt, ledger: Ledger) -> bool:
    if attempt.outcome is JobOutcome.NODE_FAILED:
        return True
    proven = not attempt.release or attempt.release in ledger.proven
    return proven and is_failure(attempt) and attempt.outcome is not JobOutcome.NOT_NEEDED


def exclude_nodes(waiting: Iterable[Attempt], nodes: tuple[str, ...]) -> list[Action]:
    """Amend the waiting jobs, in their places, to avoid these nodes."""
    said = f"left out: {', '.join(nodes)}" if nodes else "no node is left out any more"
    return [
        Amend(attempt.token, attempt.job_id, said, exclude=nodes)
        for attempt in waiting
        if attempt.queued and attempt.job_id is not None and attempt.requests.excluded != nodes
    ]
