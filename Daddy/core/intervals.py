"""Pure: 95 % confidence intervals for few observations: of a mean, a centre, and a share.

A mean of few seeds without its interval says nothing. Student's t for means; Hodges and Lehmann's
estimate (1963) for the centre of what is symmetric but has wild tails, as timings on a machine that
is not alone; Wilson's score for shares, which stays sensible at 0 and at all of them (Brown, Cai
and DasGupta, 2001).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from math import floor, inf, sqrt
from statistics import fmean, median, stdev
from typing import NamedTuple

_Z = 1.959964
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""The 97.5 % point of Student's t for 1 to 30 degrees of freedom."""


class Interval(NamedTuple):
    """An estimate and where the truth lies in 95 of 100 cases."""

    middle: float
    low: float
    high: float


def of_mean(values: Sequence[float]) -> Interval:
    """The mean of at least one value; with a single one nothing is known of its error."""
    middle = fmean(values)
    if len(values) == 1:
        return Interval(middle, -inf, inf)
    margin = t_point(len(values) - 1) * stdev(values) / sqrt(len(values))
    return Interval(middle, middle - margin, middle + margin)


def of_centre(values: Sequence[float]) -> Interval:
    """The median of the means of all pairs, bounded by Wilcoxon's signed ranks.

    For symmetric values it estimates what their mean does, but one wild value does not move it.
    The bounds are those of the normal approximation, rounded outwards; with fewer than six values
    nothing is known of the error.
    """
    count = len(values)
    means = sorted((one + other) / 2 for one, other in combinations_with_replacement(values, 2))
    pairs = len(means)
    outside = floor(pairs / 2 - _Z * sqrt(count * (count + 1) * (2 * count + 1) / 24) - 0.5)
    if outside < 0:
        return Interval(median(means), -inf, inf)
    return Interval(median(means), means[outside], means[pairs - 1 - outside])


def of_share(hits: int, trials: int) -> Interval:
    """The share of `hits` among at least one trial, 0 to 1."""
    share, z2 = hits / trials, _Z * _Z
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    spread = share * (1 - share) / trials + z2 / (4 * trials * trials)
    margin = _Z * sqrt(spread) / (1 + z2 / trials)
    return Interval(share, max(0.0, centre - margin), min(1.0, centre + margin))


def t_point(freedom: int) -> float:
    """Student's t at 97.5 %; beyond 30 degrees of freedom by its expansion around the normal."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    return _Z + (_Z**3 + _Z) / (4 * freedom)
