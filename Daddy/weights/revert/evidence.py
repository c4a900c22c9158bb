"""What was played says of the version on probation: what follows for the next one. No torch.

Only what jobs played decides. What laptops say can put a version on probation, no more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from Daddy.core.errors import WeightsError
from Daddy.weights.records.probation import (
    BETWEEN_SUSPICIONS_OF_ONE,
    Step,
    Suspicion,
    advance,
    heed,
    is_reverted,
)
from Daddy.weights.records.sequential import Finding, Outcome, compare
from Daddy.weights.revert.evaluations import Evaluation, evaluations_in_boxes, evaluations_of_jobs
from Daddy.weights.store.records import Version
from Daddy.weights.store.store import Store

SUSPICION = 0.01
"""Chance that a laptop's honest evaluation raises a false suspicion."""

REPLAY_REACH = 16
"""Versions after the one held good in which contributions made on it, or before, still came."""


def look(store: Store, head: Version) -> Step:
    """What the next version's record says of probation, or that it is to be a revert."""
    now = head.probation
    step = advance(now, head.version, finding(store, head), _last_revert(head))
    suspicions = list(_suspicions(store, head, step.probation.good))
    return heed(step, head.version, suspicions, _asked(store, head)) if suspicions else step


def finding(store: Store, head: Version) -> Finding:
    """What the jobs' pairs say; a start that several played counts once."""
    now = head.probation
    returns: dict[int, tuple[float, float]] = {}
    for _, one in evaluations_of_jobs(store) if now.trial else []:
        if (one.version, one.reference) == (now.trial, now.good) and _is_ours(store, head, one):
            for seed, ours, theirs in one.pairs:
                returns.setdefault(seed, (ours, theirs))
    return compare(returns.values())


def _is_ours(store: Store, head: Version, one: Evaluation) -> bool:
    """Whether it speaks of this run's two versions: number and hash."""
    if one.run_id != head.run_id or one.version > head.version:
        return False
    try:
        states = (store.version(one.version).state, store.version(one.reference).state)
    except WeightsError:
        return False
    return states == (one.state, one.reference_state)


def _is_here(store: Store, one: Evaluation) -> bool:
    """Whether jobs can still play it."""
    return store.paths.blob(one.state).exists()


def _suspicions(store: Store, head: Version, good: int) -> Iterator[Suspicion]:
    """What laptops found worse than something older, each by its own pairs alone."""
    found: dict[tuple[str, int, int], dict[int, tuple[float, float]]] = {}
    for _, one in evaluations_in_boxes(store):
        if is_relevant(head, one, good) and _is_ours(store, head, one) and _is_here(store, one):
            pairs = found.setdefault((one.peer, one.version, one.reference), {})
            pairs.update({seed: (ours, theirs) for seed, ours, theirs in one.pairs})
    for (peer, version, _), returns in sorted(found.items()):
        if compare(returns.values(), SUSPICION).outcome is Outcome.BAD:
            yield Suspicion(peer, version)


def is_relevant(head: Version, one: Evaluation, good: int) -> bool:
    """Whether a laptop's evaluation can still raise suspicion: of a version young enough."""
    young = max(good, head.version - REPLAY_REACH) < one.version <= head.version
    return young and one.run_id == head.run_id and not is_reverted(one.version, head.reverted)


def _asked(store: Store, head: Version) -> dict[int, str]:
    """Probations that laptops asked for lately: the version that began each, and the laptop."""
    first = max(0, head.version - BETWEEN_SUSPICIONS_OF_ONE + 1)
    found = (one.probation for one in store.records(first, head.version))
    return {one.since: one.asked_by for one in found if one.asked_by}


def _last_revert(head: Version) -> int:
    return max((last + 1 for _, last in head.reverted), default=0)


def drop_evaluations(store: Store, head: Version) -> None:
    """Remove those that can no longer say anything."""
    now = head.probation
    stale = [path for path, one in evaluations_of_jobs(store)
             if (one.version, one.reference) != (now.trial, now.good)]  # fmt: skip
    stale += [path for path, one in evaluations_in_boxes(store)
              if not is_relevant(head, one, now.good)]  # fmt: skip
    for path in stale:
        with contextlib.suppress(OSError):  # a box that is not ours
            path.unlink(missing_ok=True)
