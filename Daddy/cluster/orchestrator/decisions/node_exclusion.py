"""Pure. Decides which nodes are excluded, and for how long.

A node is excluded for a day after two failures without progress; a later job that trains on it to a
regular end clears them. Failures of a release that never wrote a checkpoint do not count. The next
``start``, and the end of a full disk, clear those of nodes that Slurm itself does not call failed.
At most three nodes are excluded, and never all nodes on which jobs made progress before.
"""

from collections import defaultdict
from collections.abc import Iterable

from Daddy.cluster.orchestrator.action_types import Action, Amend
from Daddy.cluster.orchestrator.controller_types import Attempt, JobOutcome, Ledger
from Daddy.cluster.orchestrator.decisions.circuit_breaker import is_failure

_STRIKES = 2
_STRIKE_S = 86_400.0
"""Seconds for which a failure counts against its node."""
_MOST = 3
"""Most nodes excluded at once."""
_WELL = (JobOutcome.DONE, JobOutcome.DRAINED)


def excluded_nodes(ledger: Ledger, now: float) -> tuple[str, ...]:
    """Return the names of the nodes to exclude at ``now`` (wall seconds), sorted."""
    strikes = _strikes(ledger, now - _STRIKE_S)
    bad = [node for node, stamps in strikes.items() if len(stamps) >= _STRIKES]
    worst = sorted(bad, key=lambda node: (-max(strikes[node]), node))
    chosen = worst[:_MOST]
    if not chosen:
        return ()
    progressed = (job for job in ledger.attempts if job.progressed_ts is not None)
    good = {job.node for job in progressed if job.node}
    while chosen and good and good <= set(chosen):
        chosen.pop()
    return tuple(sorted(chosen))


def _strikes(ledger: Ledger, since: float) -> dict[str, list[float]]:
    """Return, per node, the times of failures after ``since`` that no later success cleared."""
    failed: dict[str, list[float]] = defaultdict(list)
    forgiven: dict[str, float] = {}
    for attempt in ledger.ended_or_rejected:
        node, ended = attempt.node, attempt.ended_ts or 0.0
        if ended <= since or not node:
            continue
        if attempt.outcome in _WELL and attempt.progressed_ts is not None:
            forgiven[node] = max(ended, forgiven.get(node, 0.0))
        elif _is_strike(attempt, ledger):
            failed[node].append(ended)
    return {
        node: [stamp for stamp in stamps if stamp > forgiven.get(node, 0.0)]
        for node, stamps in failed.items()
    }


def _is_strike(attempt: Attempt, ledger: Ledger) -> bool:
    if attempt.outcome is JobOutcome.NODE_FAILED:
        return True
    if (attempt.ended_ts or 0.0) <= max(ledger.start_seen_ts, ledger.room_ts):
        return False
    proven = not attempt.release or attempt.release in ledger.proven
    return proven and is_failure(attempt) and attempt.outcome is not JobOutcome.NOT_NEEDED


def exclude_nodes(waiting: Iterable[Attempt], nodes: tuple[str, ...]) -> list[Action]:
    """Return changes that exclude ``nodes`` for waiting jobs, which keep their queue age."""
    reason = f"excluded: {', '.join(nodes)}" if nodes else "no node is excluded any more"
    return [
        Amend(attempt.token, attempt.job_id, reason, exclude=nodes)
        for attempt in waiting
        if attempt.queued and attempt.job_id is not None and attempt.requests.excluded != nodes
    ]
