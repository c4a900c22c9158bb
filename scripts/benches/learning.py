"""Measures the steps that learners need to finish the cartridge's game.

Arms: random keys and PPO, each with and without the archive. The final policies of PPO + archive
are also evaluated, from the start of the game and without an archive.

Learners run `python -m Daddy.train_slim` as users do, with one thread each, one per core, on the
cartridge without its busy work. A run stops at its goal or its limit; runs whose final policy is
evaluated use all their steps. The state folder keeps finished runs, and interrupted ones resume.
`--quick` only tests that everything runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from Daddy.core.arguments import whole_number
from Daddy.core.atomic_files import read_json
from Daddy.core.confidence_intervals import mean_interval, share_interval
from Daddy.core.errors import UsageError
from Daddy.core.host_and_processes import usable_cores
from Daddy.core.load_config import CHECKOUT
from Daddy.core.rom_identity import load_rom
from Daddy.learning.startup_preloading import prepare_imports
from scripts.benches._learning_pool import Pool, read_evaluation
from scripts.benches._learning_runs import ARMS, PPO_ARCHIVE, RANDOM_ARCHIVE, WON, Run, lean_game

STATE = CHECKOUT / "runs" / "benches" / "learning"
SEEDS, EPISODES, LIMIT = 5, 100, 300_000
QUICK_SEEDS, QUICK_EPISODES, QUICK_LIMIT = 1, 1, 2_048
OPTIONS: Mapping[str, str | Mapping[str, Any]] = {
    "state": f"folder of the runs (default {STATE.relative_to(CHECKOUT)})",
    "only": {"metavar": "ARM", "help": "single arm, such as 'PPO + archive' (default: all arms)"},
    "seeds": {
        "type": whole_number(1),
        "metavar": "N",
        "help": f"seeds of each arm (default {SEEDS})",
    },
}
_RESAMPLES = 10_000


@dataclass(frozen=True)
class Result:
    """A finished run; `reached` is the step of its victory, None if it has none after `steps`."""

    seed: int
    reached: int | None
    steps: int
    limit: int
    wall_s: float
    firsts: Mapping[str, int]
    won: tuple[int, int] | None = None
    """Episodes that its final policy won, and episodes played."""

    @property
    def cost(self) -> int:
        """Steps to the goal; the limit, a lower bound, for a run that did not reach it."""
        return self.limit if self.reached is None else self.reached


def run(
    quick: bool, state: Path | None = None, only: str | None = None, seeds: int | None = None
) -> dict[str, object]:
    """Return the figures by arm; after Ctrl-C those of the finished runs."""
    names = [arm.name for arm in ARMS]
    if only is not None and only not in names:
        raise UsageError(f"there is no arm {only!r}", f"use one of: {', '.join(sorted(names))}")
    prepare_imports()
    root = (state or STATE).expanduser().absolute() / ("quick" if quick else "full")
    game, limit = lean_game(root / "game"), QUICK_LIMIT if quick else LIMIT
    count = seeds or (QUICK_SEEDS if quick else SEEDS)
    runs = [
        Run(root, game, arm, seed, limit)
        for seed in range(1, 1 + count)
        for arm in ARMS
        if only in (None, arm.name)
    ]
    _play(runs, QUICK_EPISODES if quick else EPISODES)
    return {
        **({"quick": "a smoke test: nothing here is a result"} if quick else {}),
        "game": load_rom(game).name,
        "side_by_side": usable_cores(),
        "limit": limit,
        **_figures(_read_results(runs)),
        "unfinished": sum(not run.done.exists() for run in runs),
        "runs": str(root),
    }


def _play(runs: Sequence[Run], episodes: int) -> None:
    """Play the unfinished runs, until all are finished or Ctrl-C is pressed."""
    pool = Pool(episodes, lambda text: print(f"  {text}", flush=True))
    try:
        for _ in pool.play(runs):
            pass
    except KeyboardInterrupt:
        print("  stopped: the same command resumes the runs", flush=True)


def _read_results(runs: Sequence[Run]) -> dict[str, list[Result]]:
    """Return the results of the finished runs, by arm."""
    results: dict[str, list[Result]] = {}
    for run in runs:
        if run.done.exists():
            results.setdefault(run.arm.name, []).append(read_result(run))
    return results


def read_result(run: Run) -> Result:
    """Read the result of a finished run from its folder."""
    progress, wall_s = run.read_progress(), float(read_json(run.done)["wall_s"])
    won = None
    if run.evaluation.exists():
        episodes = read_evaluation(run)["episodes"]
        won = sum(episode["won"] for episode in episodes), len(episodes)
    reached = progress.firsts.get(WON)
    return Result(run.seed, reached, progress.step, run.limit, wall_s, progress.firsts, won)


def _figures(by_arm: Mapping[str, Sequence[Result]]) -> dict[str, object]:
    figures: dict[str, object] = {arm: summarise(results) for arm, results in by_arm.items()}
    ours, theirs = PPO_ARCHIVE.name, RANDOM_ARCHIVE.name
    if {ours, theirs} <= by_arm.keys():
        figures[f"steps of {ours} / {theirs}"] = ratio(by_arm[ours], by_arm[theirs])
    return figures


def summarise(results: Sequence[Result]) -> dict[str, Any]:
    """Return the figures of an arm: runs that reached the goal, their steps, and each run."""
    reached = sum(result.reached is not None for result in results)
    evaluated = [result.won for result in results if result.won is not None]
    won, played = sum(hits for hits, _ in evaluated), sum(count for _, count in evaluated)
    seconds = sum(result.wall_s for result in results) or 1.0
    return {
        "reached": share(reached, len(results)),
        "steps_mean": spread(
            [float(result.cost) for result in results], bound=reached < len(results)
        ),
        "steps": [result.reached for result in results],
        "milestones": [len(result.firsts) for result in results],
        "wall_s": [result.wall_s for result in results],
        "steps_per_s": round(sum(result.steps for result in results) / seconds),
        **({"final_policy_wins": share(won, played)} if evaluated else {}),
    }


def spread(values: Sequence[float], bound: bool) -> str:
    """Format mean and interval of values above 0; with `bound` some values are lower bounds."""
    interval, more = mean_interval(values), " or more" if bound else ""
    if len(values) == 1:
        return f"{interval.middle:,.0f}{more} (one seed: no interval)"
    return f"{interval.middle:,.0f} [{max(0.0, interval.low):,.0f}, {interval.high:,.0f}]{more}"


def share(hits: int, trials: int) -> str:
    """Format a share in per cent with its interval."""
    interval = share_interval(hits, trials)
    low, middle, high = (100 * end for end in (interval.low, interval.middle, interval.high))
    return f"{hits} of {trials}, {middle:.0f} % [{low:.0f}, {high:.0f}]"


def ratio(ours: Sequence[Result], theirs: Sequence[Result]) -> str:
    """Format the ratio of mean steps with its bootstrap interval over seeds.

    The ratio is a bound if a side has runs that did not reach the goal.
    """
    sides = [np.array([result.cost for result in arm], float) for arm in (ours, theirs)]
    rng = np.random.default_rng(0)
    means = [rng.choice(costs, (_RESAMPLES, len(costs))).mean(axis=1) for costs in sides]
    low, high = np.percentile(means[0] / means[1], [2.5, 97.5])
    text = f"{sides[0].mean() / sides[1].mean():.2f} [{low:.2f}, {high:.2f}]"
    open_ours, open_theirs = (any(run.reached is None for run in arm) for arm in (ours, theirs))
    if open_ours and open_theirs:
        return f"unknown: both have runs that did not reach the goal ({text} at the limit)"
    return f"{text}{' or more' if open_ours else ' or less' if open_theirs else ''}"
