"""Figures of the bench `sharing`, from the results on disk.

Figures are interquartile means over seeds, which leave out the best and the worst quarter (Agarwal
et al., 2021, "Deep reinforcement learning at the edge of the statistical precipice"). Intervals are
percentiles of means of resampled seeds, both sides of a ratio from the same seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scripts.benches._sharing_tasks import (
    HOSTILE,
    NEEDS,
    QUICK_ROUNDS,
    ROUNDS,
    SHARED,
    Arm,
    Task,
)

RESAMPLES = 10_000
Floats = NDArray[np.float64]
Result = Mapping[str, Any]


@dataclass(frozen=True)
class ArmResults:
    """The tasks of some arms for so many `seeds` from `first` on, and their results on disk."""

    root: Path
    arms: tuple[Arm, ...]
    seeds: int
    quick: bool
    first: int = 1

    @property
    def _range(self) -> range:
        return range(self.first, self.first + self.seeds)

    @cached_property
    def tasks(self) -> list[Task]:
        """Seed by seed, so that an interrupted bench has some of everything."""
        return [self._task(arm, seed) for seed in self._range for arm in self.arms]

    def _task(self, arm: Arm, seed: int) -> Task:
        return Task(self.root, arm, seed, QUICK_ROUNDS if self.quick else ROUNDS)

    def left(self) -> list[Task]:
        """Tasks without a result."""
        return [task for task in self.tasks if not task.path.exists()]

    def of(self, *wanted: Arm) -> list[list[dict[str, Any]]]:
        """Results of each of these arms, for the seeds that all of them have."""
        rows = []
        for seed in self._range:
            row = [self._task(arm, seed).result() for arm in wanted]
            if all(result is not None for result in row):
                rows.append([result for result in row if result is not None])
        return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in wanted]


def iqm(values: Floats) -> Floats:
    """Return the mean of the middle half of the last axis; cut seeds count in part."""
    ordered, size = np.sort(values, axis=-1), values.shape[-1]
    edges = np.arange(size + 1) / size
    inside = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0.0, None)
    middle: Floats = (ordered * inside).sum(axis=-1) / inside.sum()
    return middle


def _drawn(seeds: int) -> NDArray[np.int64]:
    return np.random.default_rng(0).integers(seeds, size=(RESAMPLES, seeds))


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """Return the ratio of means with its interval; both sides hold the same seeds in order."""
    mine, yours = np.asarray(ours, float), np.asarray(theirs, float)
    drawn = _drawn(len(mine))
    low, high = np.percentile(iqm(mine[drawn]) / iqm(yours[drawn]), [2.5, 97.5])
    found = {"ratio": iqm(mine) / iqm(yours), "low": low, "high": high}
    return {name: round(float(value), 3) for name, value in found.items()}


def middle(values: Sequence[float]) -> dict[str, float]:
    """Return the interquartile mean of one value per seed, with its interval."""
    given = np.asarray(values, float)
    low, high = np.percentile(iqm(given[_drawn(len(given))]), [2.5, 97.5])
    found = {"iqm": iqm(given), "low": low, "high": high}
    return {name: round(float(value), 1) for name, value in found.items()}


def worth(result: Result) -> float:
    """Return the mean over rounds and learners: the area under the curve, 0 to 500."""
    return fmean(fmean(row) for row in result["each"])


def best(result: Result) -> float:
    """Return the area of the best learner."""
    return max(fmean(column) for column in zip(*result["each"], strict=True))


def compared(ours: Sequence[Result], theirs: Sequence[Result]) -> dict[str, Any]:
    """Return the ratio of areas, with its interval and our own area."""
    mine, yours = [worth(result) for result in ours], [worth(result) for result in theirs]
    return {**ratio(mine, yours), "area": middle(mine), "seeds": len(mine)}


def gain(found: ArmResults) -> dict[str, Any]:
    """E1: four that share beside four on their own, the best of those, and one large learner."""
    shared, alone, big = found.of(*NEEDS["E1"])
    if not shared:
        return {"seeds": 0}
    areas = [worth(result) for result in shared]
    return {
        **compared(shared, alone),
        "alone_area": middle([worth(result) for result in alone]),
        "vs_best_of_four": ratio(areas, [best(result) for result in alone]),
        "vs_ddp": ratio(areas, [worth(result) for result in big]),
        "errors": sum(len(result["errors"]) for result in shared),
    }


def poison(found: ArmResults) -> dict[str, Any]:
    """E6: each lie beside the same group without one, and the number of lies merged and refused."""
    told: dict[str, Any] = {}
    for arm in HOSTILE:
        clean, bad = found.of(SHARED, arm)
        if clean:
            counts = ("lies_merged", "lies_scaled_down", "lies_refused")
            sums = {name: sum(result[name] for result in bad) for name in counts}
            told[arm.name] = {**compared(bad, clean), **sums}
    return told


TABLES = {"E1": gain, "E6": poison}
