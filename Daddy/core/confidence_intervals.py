"""Pure. 95 % confidence intervals of a mean and of a share, for few observations.

Student's t for means; Wilson's score for shares, because it holds at shares of 0 and 1 too (Brown,
Cai and DasGupta, 2001).
"""

from collections.abc import Sequence
from math import inf, sqrt
from statistics import fmean, stdev
from typing import NamedTuple

_Z = 1.959964
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""The 97.5 % point of Student's t for 1 to 30 degrees of freedom."""


class Interval(NamedTuple):
    """An estimate and the two ends of its 95 % confidence interval."""

    middle: float
    low: float
    high: float


def mean_interval(values: Sequence[float]) -> Interval:
    """Return the mean of at least one value; the interval of a single value is infinite."""
    middle = fmean(values)
    if len(values) == 1:
        return Interval(middle, -inf, inf)
    margin = t_quantile(len(values) - 1) * stdev(values) / sqrt(len(values))
    return Interval(middle, middle - margin, middle + margin)


def share_interval(hits: int, trials: int) -> Interval:
    """Return hits / trials with Wilson's 95 % interval; `trials` is at least 1."""
    share, z2 = hits / trials, _Z * _Z
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    spread = share * (1 - share) / trials + z2 / (4 * trials * trials)
    margin = _Z * sqrt(spread) / (1 + z2 / trials)
    return Interval(share, max(0.0, centre - margin), min(1.0, centre + margin))


def t_quantile(freedom: int) -> float:
    """Return Student's t at 97.5 %; beyond 30 degrees of freedom an expansion of the normal's."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    return _Z + (_Z**3 + _Z) / (4 * freedom)
