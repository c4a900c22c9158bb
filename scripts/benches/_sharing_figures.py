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
