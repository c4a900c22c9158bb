"""Pure figures of the bench `learning`: steps to the goal per arm, with their uncertainty.

Of runs that did not get there only the limit is known: a mean that counts them at it is a lower
bound and said to be one. Ratios have a bootstrap interval over the seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scripts.benches._intervals import share, spread

_RESAMPLES = 10_000


@dataclass(frozen=True)
class Result:
    """One ended run: `reached` is the step of its goal, None if it was given up at `steps`."""

    seed: int
    reached: int | None
    steps: int
    limit: int
    wall_s: float
    firsts: Mapping[str, int]
    won: tuple[int, int] | None = None
    """Of its final policy: episodes won, of how many."""
    noted: Mapping[str, int] | None = None

    @property
    def cost(self) -> int:
        """Steps to the goal, or at least so many."""
        return self.limit if self.reached is None else self.reached


def row(results: Sequence[Result]) -> dict[str, Any]:
    """One arm: how many got there, when, and what each run came to."""
    there = sum(one.reached is not None for one in results)
    costs = [float(one.cost) for one in results]
    figures: dict[str, Any] = {
        "reached": share(there, len(results)),
        "steps_mean": spread(costs, bound=there < len(results)),
        "steps": [one.reached for one in results],
        "milestones": [len(one.firsts) for one in results],
        "wall_s": [one.wall_s for one in results],
        "steps_per_s": round(sum(one.steps for one in results) / _seconds(results)),
    }
    noted = [dict(one.noted) for one in results if one.noted]
    return {**figures, **_judged(results), **({"poisoned_at": noted} if noted else {})}


def ratio(ours: Sequence[Result], theirs: Sequence[Result]) -> str:
    """How many of their steps ours need; a bound where one side has runs without an end."""
    mine, yours = (np.array([one.cost for one in some], float) for some in (ours, theirs))
    dice = np.random.default_rng(0)
    drawn = [dice.choice(some, (_RESAMPLES, len(some))).mean(axis=1) for some in (mine, yours)]
    low, high = np.percentile(drawn[0] / drawn[1], [2.5, 97.5])
    text = f"{mine.mean() / yours.mean():.2f} [{low:.2f}, {high:.2f}]"
    open_ours, open_theirs = (any(one.reached is None for one in some) for some in (ours, theirs))
    if open_ours and open_theirs:
        return f"unknown: both have runs that did not get there ({text} at the limit)"
    return f"{text}{' or more' if open_ours else ' or less' if open_theirs else ''}"


def _judged(results: Sequence[Result]) -> dict[str, Any]:
    told = [one.won for one in results if one.won is not None]
    if not told:
        return {}
    won, of = sum(hits for hits, _ in told), sum(count for _, count in told)
    return {
        "final_policy_wins": [f"{hits} of {count}" for hits, count in told],
        "final_policy_wins_all": share(won, of),
    }


def _seconds(results: Sequence[Result]) -> float:
    return sum(one.wall_s for one in results) or 1.0
