"""Pure: what the other jobs' contributions tell is usual, and how many steps are believed by it.

A job's own word is no yardstick for itself. Each other job tells one thing, the median of what it
contributed to the last versions and offers now, and what is usual is the median of those: one job,
however often it speaks, does not move it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

SHARE_FACTOR = 4.0
"""Times the usual steps that a job's share of a version may stand for: honest jobs of one run
differ in speed, but none outweighs all the others because it says so."""

COUNT_FACTOR = 16.0
"""Times the usual steps, for each version since its last contribution, that are added to a job's
total."""


@dataclass(frozen=True, slots=True)
class Told:
    """One contribution of a job: the norm of its delta and the steps that it claims."""

    peer: str
    norm: float
    optimizer_steps: int
    env_steps: int


@dataclass(frozen=True, slots=True)
class Usual:
    """What ``jobs`` other jobs contribute at a time."""

    norm: float
    optimizer_steps: float
    env_steps: float
    jobs: int


def usual_beside(peer: str, told: Sequence[Told]) -> Usual | None:
    """What is usual among the others; None where nobody else has contributed lately."""
    others = sorted({one.peer for one in told} - {peer})
    if not others:
        return None
    each = [[one for one in told if one.peer == other] for other in others]
    return Usual(
        norm=_middle([[one.norm for one in theirs] for theirs in each]),
        optimizer_steps=_middle([[one.optimizer_steps for one in theirs] for theirs in each]),
        env_steps=_middle([[one.env_steps for one in theirs] for theirs in each]),
        jobs=len(others),
    )


def _middle(each: Sequence[Sequence[float]]) -> float:
    return statistics.median(statistics.median(values) for values in each)


@dataclass(frozen=True, slots=True)
class Believed:
    """Steps for which a contribution's share stands, and those added to its author's total."""

    env_steps: int
    new_steps: int


def believe(env_steps: int, new_steps: int, usual: Usual | None, versions: int) -> Believed:
    """A job's claims within what is usual; ``versions`` have passed since its last contribution.

    What no other job can bear witness to is believed.
    """
    if usual is None:
        return Believed(env_steps, new_steps)
    share = max(1, int(SHARE_FACTOR * usual.env_steps))
    total = max(1, int(COUNT_FACTOR * usual.env_steps * max(1, versions)))
    return Believed(min(env_steps, share), min(new_steps, total))
