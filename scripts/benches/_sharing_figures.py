"""Pure figures of the bench `sharing`: interquartile means over seeds and their intervals.

The interquartile mean leaves out the best and the worst quarter of the seeds (Agarwal et al., 2021,
"Deep reinforcement learning at the edge of the statistical precipice"); intervals are percentiles
of means of seeds drawn again with replacement, both sides of a ratio from the same seeds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
Floats = NDArray[np.float64]


def iqm(values: Floats) -> Floats:
    """Mean of the middle half of the last axis; of cut seeds the part that lies inside counts."""
    ordered, size = np.sort(values, axis=-1), values.shape[-1]
    edges = np.arange(size + 1) / size
    inside = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0.0, None)
    middle: Floats = (ordered * inside).sum(axis=-1) / inside.sum()
    return middle


def _drawn(seeds: int) -> NDArray[np.int64]:
    return np.random.default_rng(0).integers(seeds, size=(RESAMPLES, seeds))


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """How many times as good ours are: seed by seed the same order on both sides, at least one."""
    mine, yours = np.asarray(ours, float), np.asarray(theirs, float)
    drawn = _drawn(len(mine))
    low, high = np.percentile(iqm(mine[drawn]) / iqm(yours[drawn]), [2.5, 97.5])
    found = {"ratio": iqm(mine) / iqm(yours), "low": low, "high": high}
    return {name: round(float(value), 3) for name, value in found.items()}


def middle(values: Sequence[float]) -> dict[str, float]:
    """The interquartile mean of one value per seed, with its interval."""
    given = np.asarray(values, float)
    low, high = np.percentile(iqm(given[_drawn(len(given))]), [2.5, 97.5])
    found = {"iqm": iqm(given), "low": low, "high": high}
    return {name: round(float(value), 1) for name, value in found.items()}


def band(curves: Sequence[Sequence[float]]) -> tuple[Floats, Floats, Floats]:
    """(middle, low, high) of curves (seeds, rounds), each (rounds,): for the picture."""
    given = np.asarray(curves, float).T
    drawn = iqm(given[:, _drawn(given.shape[-1])[:1000]])
    low, high = np.percentile(drawn, [2.5, 97.5], axis=-1)
    return iqm(given), low, high


SUCCESS = 0.9
"""Share of the frozen games that a learner has to win to have succeeded."""


def all_succeeded(each: Sequence[Sequence[float]]) -> float:
    """The round, from 1, by which every learner has succeeded once; infinite where one never has.

    `each` holds a row per round: the share of games that each learner won after it.
    """
    won = np.maximum.accumulate(np.asarray(each, float)) >= SUCCESS
    whole = np.flatnonzero(won.all(axis=1))
    return float(whole[0] + 1) if len(whole) else float("inf")


def median_ratio(
    ours: Sequence[float], theirs: Sequence[float], last: float
) -> dict[str, float | bool | None]:
    """The median of ours over that of theirs, with its interval; who never finished is infinite.

    All were watched for as long, `last`: so the order is known, and with it the median, unless it
    falls on runs that did not finish. Theirs then counts as `last`, which makes the ratio an upper
    bound (`at_most`); of ours nothing can be said (None).
    """
    mine, yours = np.asarray(ours, float), np.asarray(theirs, float)
    drawn = _drawn(len(mine))
    above, below = (np.median(side[drawn], axis=-1) for side in (mine, yours))
    spread = np.sort(above / np.minimum(below, last))
    middle_of_theirs = float(np.median(yours))
    edges = (spread[int(share * (RESAMPLES - 1))] for share in (0.025, 0.975))
    figures = (float(np.median(mine)) / min(middle_of_theirs, last), *map(float, edges))
    told = [round(one, 3) if np.isfinite(one) else None for one in figures]
    names = ("ratio", "low", "high")
    return {**dict(zip(names, told, strict=True)), "at_most": bool(np.isinf(middle_of_theirs))}
