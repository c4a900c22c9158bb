"""What each experiment of the bench `sharing` comes to, from the seeds that all its arms have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, isinf
from pathlib import Path
from statistics import fmean, median
from typing import Any

from Daddy.core.intervals import of_share
from scripts.benches import _sharing_arms as arms
from scripts.benches._sharing_arms import Arm
from scripts.benches._sharing_cosines import THRESHOLD
from scripts.benches._sharing_figures import all_succeeded, median_ratio, middle, ratio
from scripts.benches._sharing_hostile import QUARANTINE
from scripts.benches._sharing_tasks import Task

GREATEST = 500.0
"""The greatest return of an episode."""


@dataclass(frozen=True)
class Found:
    """The tasks of some arms for so many `seeds` from `first` on, and what lies on disk of them."""

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
        pairs = [(arm, seed) for seed in self._range for arm in self.arms]
        return [self._task(arm, seed) for arm, seed in pairs]

    def _task(self, arm: Arm, seed: int) -> Task:
        return Task(self.root, arm, seed, arm.rounds(self.quick))

    def left(self) -> list[Task]:
        """Those that are not done."""
        return [task for task in self.tasks if not task.path.exists()]

    def of(self, *wanted: Arm) -> list[list[dict[str, Any]]]:
        """Results of each of these arms, for the seeds that all of them have."""
        rows = []
        for seed in self._range:
            row = [self._task(arm, seed).result() for arm in wanted]
            if all(one is not None for one in row):
                rows.append([one for one in row if one is not None])
        return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in wanted]


def worth(result: Mapping[str, Any]) -> float:
    """The mean over rounds and learners: the area under the curve, 0 to 500."""
    return fmean(fmean(row) for row in result["each"])


def best(result: Mapping[str, Any]) -> float:
    """The area of the learner that came out best: nobody knows beforehand which it will be."""
    return max(fmean(column) for column in zip(*result["each"], strict=True))


def final(result: Mapping[str, Any]) -> float:
    """What learners were worth at the end."""
    return fmean(result["each"][-1])


def compared(ours: Sequence[Any], theirs: Sequence[Any]) -> dict[str, Any]:
    """The ratio of areas, with its interval and what it is made of."""
    mine, yours = [worth(one) for one in ours], [worth(one) for one in theirs]
    return {**ratio(mine, yours), "area": middle(mine), "seeds": len(mine)}


def _beside(name: str, ours: Sequence[Any], theirs: Sequence[float]) -> dict[str, Any]:
    """A ratio that is reported and promises nothing."""
    one = ratio([worth(result) for result in ours], theirs)
    return {name: one["ratio"], f"{name}_interval": [one["low"], one["high"]]}


def gain(found: Found) -> dict[str, Any]:
    """E1."""
    shared, alone, big, eight, laptops = found.of(*arms.NEEDS["E1"])
    if not shared:
        return {"seeds": 0}
    apart = [worth(one) for one in alone]
    return {
        **compared(shared, alone),
        "alone_area": middle(apart),
        "alone_of_maximum": round(fmean(apart) / GREATEST, 3),
        **_beside("vs_best_of_four", shared, [best(one) for one in alone]),
        **_beside("vs_ddp", shared, [worth(one) for one in big]),
        **_beside("eight_vs_four", eight, [worth(one) for one in shared]),
        **_beside("with_laptops_vs_four", laptops, [worth(one) for one in shared]),
        "final": middle([final(one) for one in shared]),
        "final_alone": middle([final(one) for one in alone]),
        "wall_s": {
            "share": round(fmean(one["wall_s"] for one in shared), 1),
            "alone": round(fmean(one["wall_s"] for one in alone), 1),
        },
        "errors": sum(len(one["errors"]) for one in shared),
    }


def discovery(found: Found) -> dict[str, Any]:
    """E2: environment steps of each learner until all four have come to the goal."""
    shared, alone = found.of(*arms.NEEDS["E2"])
    if not shared:
        return {"seeds": 0}
    last = arms.DOORS_SHARED.rounds(found.quick)
    mine, yours = ([all_succeeded(one["each"]) for one in side] for side in (shared, alone))
    found_out = {**median_ratio(mine, yours, last), "seeds": len(shared)}
    steps, of_a_round = ("median_steps", "median_steps_alone"), arms.steps_of_a_round()
    for name, side in zip(steps, (mine, yours), strict=True):
        middle_round = float(median(side))
        found_out[name] = middle_round * of_a_round if isfinite(middle_round) else None
    unfinished = {"shared": sum(map(isinf, mine)), "alone": sum(map(isinf, yours))}
    return {**found_out, "unfinished": unfinished, "steps_each": last * of_a_round}


def diversity(found: Found) -> dict[str, Any]:
    """E3: which share of all states each learner was in, as a mean over the run and at its end."""
    names = ("shared", "alone")
    sides = dict(zip(names, found.of(*arms.NEEDS["E3"]), strict=True))
    if not sides["shared"]:
        return {"seeds": 0}
    seen = {name: [fmean(map(fmean, one["seen"])) for one in side] for name, side in sides.items()}
    return {
        **ratio(seen["shared"], seen["alone"]),
        "at_the_end": {name: round(fmean(fmean(one["seen"][-1]) for one in side), 3)
                       for name, side in sides.items()},
        "seeds": len(sides["shared"]),
    }  # fmt: skip


def faults(found: Found) -> dict[str, Any]:
    """E4."""
    clean, broken = found.of(arms.SHARED, arms.FAULTS)
    if not clean:
        return {"seeds": 0}
    return {**compared(broken, clean), "deaths": [one["deaths"] for one in broken]}


def poison(found: Found) -> dict[str, Any]:
    """E6: each lie against the crew without one."""
    told: dict[str, Any] = {}
    for arm in arms.HOSTILE:
        clean, bad = found.of(arms.SHARED, arm)
        if clean:
            told[arm.name] = {**compared(bad, clean), **_became(bad)}
    return told | ({"cosines": _directions(found)} if told else {})


def _became(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What became of the lies, summed over the seeds."""
    names = ("lies_merged", "lies_scaled_down", "lies_refused")
    shut_out = [one["last_merged_in"] <= QUARANTINE for one in results]
    return {
        **{name: sum(one[name] for one in results) for name in names},
        "shut_out": f"{sum(shut_out)} of {len(results)} within {QUARANTINE} versions",
    }


def _directions(found: Found) -> dict[str, Any]:
    """What a gate that looks at directions would have seen of liars, and of the honest beside."""
    told: dict[str, Any] = {}
    for arm in arms.HOSTILE:
        (results,) = found.of(arm)
        if results and arm.how["gated"]:
            liars = [one["liars_cosines"] for one in results if one["liars_cosines"]["seen"]]
            honest = [one["cosines"] for one in results if one["cosines"]["seen"]]
            told[arm.how["lie"]] = {"liars": _pooled(liars), "honest": _pooled(honest)}
    return told


def _pooled(cosines: Sequence[Mapping[str, float]]) -> str:
    """Means over the seeds, and the least and greatest of all."""
    if not cosines:
        return "none in a version of three or more"
    least, most = min(one["least"] for one in cosines), max(one["most"] for one in cosines)
    below = fmean(one["below"] for one in cosines)
    mean = fmean(one["mean"] for one in cosines)
    return f"{mean:.2f} ({least:.2f} to {most:.2f}), {below:.1%} below {THRESHOLD}"


def lateness(found: Found) -> dict[str, Any]:
    """E7."""
    prompt, late, dropped = found.of(arms.SHARED, arms.LATE, arms.DROPPED)
    if not prompt:
        return {"seeds": 0}
    return {"rebased": compared(late, prompt), "replaced": compared(dropped, prompt)}


def wire(found: Found) -> dict[str, Any]:
    """E8."""
    (shared,) = found.of(arms.SHARED)
    if not shared:
        return {"seeds": 0}
    asked, same = (sum(one["wire"][name] for one in shared) for name in ("asked", "same"))
    one = of_share(same, asked)
    return {
        "same_action": round(one.middle, 6),
        "low": round(one.low, 6),
        "high": round(one.high, 6),
        "asked": asked,
        "worst_seed": min(one["wire"]["same"] / one["wire"]["asked"] for one in shared),
        "seeds": len(shared),
    }


TABLES: Mapping[str, Callable[[Found], dict[str, Any]]] = {
    "E1": gain,
    "E2": discovery,
    "E3": diversity,
    "E4": faults,
    "E6": poison,
    "E7": lateness,
    "E8": wire,
}
