"""Pure. Tell whether the newest versions play clearly worse than the best ones.

Returns by version come from learners' episodes, differences from evaluations of two versions from
the same starts. Few episodes fall on one version, so neighbours are pooled into stretches of at
least 50. The best of many stretches looks good by chance, and a person looks again and again:
besides the 95 % interval, the bound at an error of 1 in 10,000, shared out among all comparisons
and looks (Bonferroni), must lie below 0. The standard error is the larger of Welch's and the
pooled one: where a reward is rare, few episodes without any have no spread of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, fmean, pvariance, variance

from Daddy.core.confidence_intervals import t_quantile
from Daddy.weights.store.weight_records import is_reverted

FEWEST = 50
"""Episodes of each side."""

FALSE_ALARM = 1e-4
"""Chance of a false alarm about one version, over all comparisons and looks."""

LOOKS = 16
"""Looks at one version that tell something new: its episodes double from one to the next."""

MOST_STRETCHES = 64
"""The newest stretches that are compared."""

SIZES = (FEWEST, 2 * FEWEST, 4 * FEWEST, 8 * FEWEST)
"""Episodes of a stretch at least: long ones show a small loss."""


@dataclass(frozen=True, slots=True)
class VersionPool:
    """Neighbouring versions, newest first, and the returns of their episodes."""

    versions: tuple[int, ...]
    returns: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class WorseVersion:
    """``version`` plays worse than ``best``: the difference of mean returns with its 95 % interval.

    ``best`` is kept, so that a person can go back to it; ``episodes`` are of each side.
    """

    version: int
    best: int
    difference: float
    low: float
    high: float
    episodes: tuple[int, int]

    def __str__(self) -> str:
        span = f"{self.difference:+.3g} [{self.low:+.3g}, {self.high:+.3g}]"
        return (
            f"v{self.version} plays clearly worse than v{self.best}: return {span} in "
            f"{self.episodes[0]} and {self.episodes[1]} episodes; to go back: "
            f"python -m Daddy.weights.rollback v{self.best}"
        )


def pool_versions(
    returns: Mapping[int, Sequence[float]],
    reverted: Sequence[tuple[int, int]],
    fewest: int = FEWEST,
) -> list[VersionPool]:
    """Stretches of at least ``fewest`` episodes, newest first, without versions taken back."""
    found, versions, pooled = list[VersionPool](), list[int](), list[float]()
    for version in sorted(returns, reverse=True):
        if not is_reverted(version, reverted):
            versions.append(version)
            pooled += returns[version]
        if len(pooled) >= fewest:
            found.append(VersionPool(tuple(versions), tuple(pooled)))
            versions, pooled = [], []
    return found[:MOST_STRETCHES]


def find_worse_in_play(
    returns: Mapping[int, Sequence[float]],
    reverted: Sequence[tuple[int, int]],
    kept: Collection[int],
) -> WorseVersion | None:
    """The newest stretch against the best older one that holds a version to go back to."""
    rounds = []
    for fewest in SIZES:
        stretches = pool_versions(returns, reverted, fewest)
        rivals = [one for one in stretches[1:] if any(v in kept for v in one.versions)]
        if rivals:
            rounds.append((stretches[0], rivals))
    comparisons = sum(len(rivals) for _, rivals in rounds)
    found = (_compare(newest, rivals, kept, comparisons) for newest, rivals in rounds)
    return next(filter(None, found), None)


def _compare(
    newest: VersionPool, rivals: Sequence[VersionPool], kept: Collection[int], comparisons: int
) -> WorseVersion | None:
    best = max(rivals, key=lambda one: fmean(one.returns))
    difference, error = _difference(newest.returns, best.returns)
    sizes = (len(newest.returns), len(best.returns))
    target = next(version for version in best.versions if version in kept)
    found = (difference, error, sum(sizes) - 2)
    return _judge(newest.versions[0], target, found, sizes, comparisons)


def find_worse_in_pairs(
    differences: Mapping[tuple[int, int], Sequence[float]], newest: int, kept: Collection[int]
) -> WorseVersion | None:
    """The newest version against older ones: return differences of pairs from the same starts.

    ``differences`` maps (version, older version) to them.
    """
    rivals = {
        older: values
        for (version, older), values in differences.items()
        if version == newest and older in kept and len(values) >= FEWEST
    }
    if not rivals:
        return None
    best = min(rivals, key=lambda older: fmean(rivals[older]))
    values, count = rivals[best], len(rivals[best])
    found = (fmean(values), sqrt(variance(values) / count), count - 1)
    return _judge(newest, best, found, (count, count), len(rivals))


def _difference(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Difference of means, and its standard error."""
    parts = [variance(side) / len(side) for side in (ours, theirs)]
    sizes = len(ours) + len(theirs)
    spread = (len(ours) * pvariance(ours) + len(theirs) * pvariance(theirs)) / (sizes - 2)
    pooled = spread * (1 / len(ours) + 1 / len(theirs))
    return fmean(ours) - fmean(theirs), sqrt(max(sum(parts), pooled))


def _judge(
    version: int,
    best: int,
    found: tuple[float, float, int],
    episodes: tuple[int, int],
    comparisons: int,
) -> WorseVersion | None:
    """The finding where it is beyond chance; ``found``: difference, its error, freedom."""
    difference, error, freedom = found
    strict = NormalDist().inv_cdf(1.0 - FALSE_ALARM / (comparisons * LOOKS))
    if difference + _student(strict, freedom) * error >= 0.0:
        return None
    margin = t_quantile(freedom) * error
    return WorseVersion(
        version, best, difference, difference - margin, difference + margin, episodes
    )


def _student(z: float, freedom: int) -> float:
    """Student's t at the level of the normal deviate ``z``, by its expansion around it."""
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
