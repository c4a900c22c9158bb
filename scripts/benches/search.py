"""Compares the samplers of sweeps with random search, on a surface that is known.

The surface stands for a training: six settings of which three matter, a score with a noise of 5 %
of its range, and a cost that rises with two of them. Each study has 30 trials, one after the other,
and tells noisy values, as a sweep does. It is judged by the surface's true values: noise that
looked like success counts for nothing.

- ``best score``: the true score of the trial that told the best one, in studies of the score alone;
- ``hypervolume``: the share of the box between score 0 at the highest cost and score 1 at no cost
  that the true values of a study of score and cost dominate; its best score stands beside it.

A seed draws the same noise for all samplers, and the same trials at the start; differences to
random search are paired by seed, with 95 % intervals. The surface was fixed before any sampler ran
on it: a sampler that does badly is changed, the surface never.
"""

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, log2
from pathlib import Path
from random import Random
from statistics import fmean

from Daddy.core.confidence_intervals import mean_interval
from Daddy.search.search_space import Range, Value
from Daddy.search.study_plan import SAMPLERS, StudyPlan

TRIALS = 30
SEEDS, QUICK_SEEDS = {"gp": 20, "random": 100, "tpe": 100}, 2
"""Studies of each kind; those of GP take the most time, and show the largest difference."""
NOISE = 0.05
"""Standard deviation of a told score, whose range is 0 to 1, and of a told cost's logarithm."""
MOST_SECONDS = 400.0
"""The cost of the dearest settings: the reference point, with score 0."""
SPACE = {
    "clip": Range(0.1, 0.4),
    "entropy": Range(1e-4, 0.1, log=True),
    "epochs": Range(1, 10, integer=True),
    "gamma": Range(0.9, 0.999),
    "rate": Range(1e-4, 0.1, log=True),
    "width": Range(16, 512, log=True, integer=True),
}
Point = tuple[float, float]
"""Score and cost."""


def surface(settings: Mapping[str, Value]) -> Point:
    """Return the true score, 0 to 1, and the true cost in seconds.

    The best rate lies within its range, lower for more epochs; epochs and width pay ever less.
    """
    rate = log(float(settings["rate"]) / 1e-4) / log(1e3)
    epochs = (float(settings["epochs"]) - 1) / 9
    width = (log2(float(settings["width"])) - 4) / 5
    gamma = (float(settings["gamma"]) - 0.9) / 0.099
    step = exp(-(((rate - 0.55 + 0.15 * epochs) / 0.2) ** 2))
    gain = 0.4 + 0.33 * (1 - (1 - epochs) ** 2) + 0.25 * (1 - (1 - width) ** 2) + 0.02 * gamma
    return step * gain, MOST_SECONDS / 20 * (1 + 4 * epochs) * (1 + 3 * width)


@dataclass(frozen=True)
class Outcome:
    """The result of one study."""

    best: float
    hypervolume: float
    cpu_s: float
    """CPU seconds of a suggestion, those at random included."""


def run(quick: bool) -> dict[str, object]:
    """Run all studies; return each sampler's means, and its differences to random search."""
    os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is loaded
    outcomes: dict[str, list[Sequence[Outcome]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for sampler in SAMPLERS:
            seeds = range(QUICK_SEEDS if quick else SEEDS[sampler])
            for objectives in (("score",), ("score", "cost")):
                studies = [
                    _run_study(
                        Path(folder) / f"{sampler}-{len(objectives)}-{seed}.jsonl",
                        StudyPlan(sampler, objectives, False, SPACE, seed),
                    )
                    for seed in seeds
                ]
                outcomes.setdefault(sampler, []).append(studies)
                print(f"  {sampler} {','.join(objectives)}: {len(seeds)} studies", flush=True)
    return {
        "trials": TRIALS,
        **{name: _figures(*outcomes[name], *outcomes["random"]) for name in SAMPLERS},
    }


def _run_study(journal: Path, plan: StudyPlan) -> Outcome:
    from Daddy.search.study import Study

    study, noise = Study(journal, plan), Random(f"noise {plan.seed}")
    points, told, spent = list[Point](), list[float](), 0.0
    for number in range(TRIALS):
        begun = time.process_time()
        trial = study.ask(f"bench.r.{number + 1}")
        spent += time.process_time() - begun
        score, cost = surface(trial.settings)
        seen = {
            "score": score + noise.gauss(0, NOISE),
            "cost": cost * exp(noise.gauss(0, NOISE)),
        }
        study.tell(trial.number, [seen[name] for name in plan.objectives])
        points.append((score, cost))
        told.append(seen["score"])
    best, _ = points[told.index(max(told))]
    return Outcome(best, hypervolume(points), spent / TRIALS)


def hypervolume(points: Sequence[Point]) -> float:
    """Return the share of the box below score 1 and `MOST_SECONDS` that the points dominate."""
    area, height = 0.0, 0.0
    for score, cost in sorted(points, key=lambda point: (point[1], -point[0])):
        if score > height:
            area += (score - height) * (MOST_SECONDS - cost)
            height = score
    return area / MOST_SECONDS


def _figures(
    alone: Sequence[Outcome],
    both: Sequence[Outcome],
    random_alone: Sequence[Outcome],
    random_both: Sequence[Outcome],
) -> dict[str, object]:
    best: Callable[[Outcome], float] = lambda outcome: outcome.best  # noqa: E731
    volume: Callable[[Outcome], float] = lambda outcome: outcome.hypervolume  # noqa: E731
    rows = {
        "best_score": (best, alone, random_alone),
        "hypervolume": (volume, both, random_both),
        "best_score_beside_cost": (best, both, random_both),
    }
    figures: dict[str, object] = {"seeds": len(both)}
    for name, (value, ours, theirs) in rows.items():
        pairs = [value(our) - value(their) for our, their in zip(ours, theirs, strict=False)]
        middle, low, high = mean_interval(pairs)
        figures[name] = fmean(map(value, ours))
        if ours is not theirs:
            figures[f"{name}_over_random"] = f"{middle:+.3f} ({low:+.3f} to {high:+.3f})"
    cpu_s = fmean(outcome.cpu_s for outcome in (*alone, *both))
    return {**figures, "cpu_ms_per_suggestion": 1000 * cpu_s}
