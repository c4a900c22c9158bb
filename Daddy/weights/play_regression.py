"""Pure. Tells whether the newest versions play clearly worse than the best ones.

Returns by version come from learners' episodes, differences from evaluations of two versions from
the same starts. Few episodes fall on one version, so neighbours are pooled into groups of at least
50 episodes. The best of many pools looks good by chance, and the test is repeated: so besides the
95 % interval, the bound at an error of 1 in 10,000, divided by all comparisons and repetitions
(Bonferroni), must lie below 0. The standard error is the larger of Welch's and the pooled one:
where a reward is rare, a few episodes without any have no spread of their own.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, fmean, pvariance, variance

from Daddy.core.confidence_intervals import t_quantile
from Daddy.weights.store.weight_records import is_reverted

FEWEST = 50
"""Fewest episodes of each side of a comparison."""

FALSE_ALARM = 1e-4
"""Chance of a false alarm about one version, over all comparisons and repetitions."""

LOOKS = 16
"""Tests of one version that are counted: its episodes double from one to the next."""

MOST_STRETCHES = 64
"""Newest pools that are compared."""

SIZES = (FEWEST, 2 * FEWEST, 4 * FEWEST, 8 * FEWEST)
"""Fewest episodes of a pool, tried in turn: large pools show a small loss."""


@dataclass(frozen=True, slots=True)
class VersionPool:
    """Neighbouring versions, newest first, and the returns of their episodes."""

    versions: tuple[int, ...]
    returns: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class WorseVersion:
    """``version`` plays worse than ``best``: difference of mean returns with its 95 % interval. The
    state of ``best`` is kept, so a person can go back to it; ``episodes``: numbers of both sides.
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
    """Pool versions into groups of at least ``fewest`` episodes, newest first, none reverted."""
    pools, versions, values = list[VersionPool](), list[int](), list[float]()
    for version in sorted(returns, reverse=True):
        if not is_reverted(version, reverted):
            versions.append(version)
            values += returns[version]
        if len(values) >= fewest:
            pools.append(VersionPool(tuple(versions), tuple(values)))
            versions, values = [], []
    return pools[:MOST_STRETCHES]


def find_worse_in_play(
    returns: Mapping[int, Sequence[float]],
    reverted: Sequence[tuple[int, int]],
    kept: Collection[int],
) -> WorseVersion | None:
    """Return a warning if the newest pool is worse than the best older one with a kept version."""
    rounds = []
    for fewest in SIZES:
        pools = pool_versions(returns, reverted, fewest)
        rivals = [older for older in pools[1:] if any(v in kept for v in older.versions)]
        if rivals:
            rounds.append((pools[0], rivals))
    comparisons = sum(len(rivals) for _, rivals in rounds)
    results = (_compare(newest, rivals, kept, comparisons) for newest, rivals in rounds)
    return next(filter(None, results), None)


def _compare(
    newest: VersionPool, rivals: Sequence[VersionPool], kept: Collection[int], comparisons: int
) -> WorseVersion | None:
    best = max(rivals, key=lambda rival: fmean(rival.returns))
    difference, error = _difference(newest.returns, best.returns)
    sizes = (len(newest.returns), len(best.returns))
    target = next(version for version in best.versions if version in kept)
    evidence = (difference, error, sum(sizes) - 2)
    return _judge(newest.versions[0], target, evidence, sizes, comparisons)


def find_worse_in_pairs(
    differences: Mapping[tuple[int, int], Sequence[float]], newest: int, kept: Collection[int]
) -> WorseVersion | None:
    """Return a warning if ``newest`` plays worse than a ``kept`` version from the same starts.
    ``differences`` maps (version, older version) to return differences.
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
    evidence = (fmean(values), sqrt(variance(values) / count), count - 1)
    return _judge(newest, best, evidence, (count, count), len(rivals))


def _difference(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    parts = [variance(side) / len(side) for side in (ours, theirs)]
    sizes = len(ours) + len(theirs)
    spread = (len(ours) * pvariance(ours) + len(theirs) * pvariance(theirs)) / (sizes - 2)
    pooled = spread * (1 / len(ours) + 1 / len(theirs))
    return fmean(ours) - fmean(theirs), sqrt(max(sum(parts), pooled))


def _judge(
    version: int,
    best: int,
    evidence: tuple[float, float, int],
    episodes: tuple[int, int],
    comparisons: int,
) -> WorseVersion | None:
    """Return a warning if the loss is beyond chance; ``evidence``: difference, error, freedom."""
    difference, error, freedom = evidence
    strict = NormalDist().inv_cdf(1.0 - FALSE_ALARM / (comparisons * LOOKS))
    if difference + _student(strict, freedom) * error >= 0.0:
        return None
    margin = t_quantile(freedom) * error
    low, high = difference - margin, difference + margin
    return WorseVersion(version, best, difference, low, high, episodes)


def _student(z: float, freedom: int) -> float:
    """Approximate the quantile of Student's t whose level is that of the normal deviate ``z``."""
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
