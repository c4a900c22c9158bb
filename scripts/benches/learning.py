"""Measures how fast a long quest is learnt: steps to the end of the cartridge.

Arms: random keys and PPO, each with and without the archive; then the final policies of PPO +
archive, from the start of the game and without an archive.

Learners are `python -m Daddy.train_slim` as users run it, one thread each, as many at once as there
are cores, on the cartridge without its busy work. A run stops at its goal or at its limit; those
whose final policies are judged use all their steps. Ended runs are kept in the folder of states and
not repeated, interrupted ones go on: Ctrl-C is no loss.
`--quick` only shows that everything runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from Daddy.core.atomic_files import read_json
from Daddy.core.confidence_intervals import mean_interval, share_interval
from Daddy.core.errors import UsageError
from Daddy.core.load_config import CHECKOUT
from Daddy.core.machine_info import usable_cores
from Daddy.core.rom_identity import load_rom
from Daddy.learning.preloading import prepare_imports
from scripts.benches._learning_pool import Pool, judgement
from scripts.benches._learning_runs import ARMS, PPO_ARCHIVE, RANDOM_ARCHIVE, WON, Run, lean_game

STATE = CHECKOUT / "runs" / "benches" / "learning"
SEEDS, JUDGED, LIMIT = 5, 100, 300_000
QUICK_SEEDS, QUICK_JUDGED, QUICK_LIMIT = 1, 1, 2_048
OPTIONS: Mapping[str, str | Mapping[str, Any]] = {
    "state": f"folder of the runs ({STATE.relative_to(CHECKOUT)})",
    "only": {"metavar": "ARM", "help": "one arm, such as 'PPO + archive'"},
    "seeds": {"type": int, "metavar": "N", "help": f"seeds of each arm ({SEEDS})"},
}
_RESAMPLES = 10_000


@dataclass(frozen=True)
class Result:
    """One ended run: `reached` is the step of its victory, None if it was given up at `steps`."""

    seed: int
    reached: int | None
    steps: int
    limit: int
    wall_s: float
    firsts: Mapping[str, int]
    won: tuple[int, int] | None = None
    """Episodes won by its final policy, of how many."""

    @property
    def cost(self) -> int:
        """Steps to the goal, or at least so many."""
        return self.limit if self.reached is None else self.reached


def run(
    quick: bool, state: Path | None = None, only: str | None = None, seeds: int | None = None
) -> dict[str, object]:
    """Figures by arm; after Ctrl-C, of the runs that had ended."""
    names = [arm.name for arm in ARMS]
    if only is not None and only not in names:
        raise UsageError(f"there is no {only!r} here", f"one of: {', '.join(sorted(names))}")
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
    _play(runs, QUICK_JUDGED if quick else JUDGED)
    return {
        **({"quick": "a smoke test: nothing here is a result"} if quick else {}),
        "game": load_rom(game).name,
        "side_by_side": usable_cores(),
        "limit": limit,
        **_figures(_ended(runs)),
        "unfinished": sum(not one.done.exists() for one in runs),
        "runs": str(root),
    }


def _play(runs: Sequence[Run], episodes: int) -> None:
    """Play what is left, until it is done or Ctrl-C is pressed."""
    pool = Pool(episodes, lambda text: print(f"  {text}", flush=True))
    try:
        for _ in pool.play(runs):
            pass
    except KeyboardInterrupt:
        print("  stopped: the same command goes on from here", flush=True)


def _ended(runs: Sequence[Run]) -> dict[str, list[Result]]:
    """Results of the ended runs, by arm."""
    found: dict[str, list[Result]] = {}
    for one in runs:
        if one.done.exists():
            found.setdefault(one.arm.name, []).append(result_of(one))
    return found


def result_of(run: Run) -> Result:
    """The result of an ended run, read from its folder."""
    story, wall_s = run.story(), float(read_json(run.done)["wall_s"])
    won = None
    if run.judged.exists():
        episodes = judgement(run)["episodes"]
        won = sum(episode["won"] for episode in episodes), len(episodes)
    reached = story.firsts.get(WON)
    return Result(run.seed, reached, story.step, run.limit, wall_s, story.firsts, won)


def _figures(found: Mapping[str, Sequence[Result]]) -> dict[str, object]:
    figures: dict[str, object] = {arm: row(results) for arm, results in found.items()}
    ours, theirs = PPO_ARCHIVE.name, RANDOM_ARCHIVE.name
    if {ours, theirs} <= found.keys():
        figures[f"steps of {ours} / {theirs}"] = ratio(found[ours], found[theirs])
    return figures


def row(results: Sequence[Result]) -> dict[str, Any]:
    """One arm: how many got there, when, and the end of each run."""
    there = sum(one.reached is not None for one in results)
    judged = [one.won for one in results if one.won is not None]
    won, of = sum(hits for hits, _ in judged), sum(count for _, count in judged)
    seconds = sum(one.wall_s for one in results) or 1.0
    return {
        "reached": share(there, len(results)),
        "steps_mean": spread([float(one.cost) for one in results], bound=there < len(results)),
        "steps": [one.reached for one in results],
        "milestones": [len(one.firsts) for one in results],
        "wall_s": [one.wall_s for one in results],
        "steps_per_s": round(sum(one.steps for one in results) / seconds),
        **({"final_policy_wins": share(won, of)} if judged else {}),
    }


def spread(values: Sequence[float], bound: bool) -> str:
    """Mean and interval of a quantity above 0; with `bound` some values are known to be more."""
    one, more = mean_interval(values), " or more" if bound else ""
    if len(values) == 1:
        return f"{one.middle:,.0f}{more} (one seed: no interval)"
    return f"{one.middle:,.0f} [{max(0.0, one.low):,.0f}, {one.high:,.0f}]{more}"


def share(hits: int, trials: int) -> str:
    """A share in per cent with its interval."""
    one = share_interval(hits, trials)
    percent = f"{100 * one.middle:.0f} % [{100 * one.low:.0f}, {100 * one.high:.0f}]"
    return f"{hits} of {trials}, {percent}"


def ratio(ours: Sequence[Result], theirs: Sequence[Result]) -> str:
    """Ratio of mean steps, bootstrapped over seeds; a bound where a side has unended runs."""
    mine, yours = (np.array([one.cost for one in some], float) for some in (ours, theirs))
    dice = np.random.default_rng(0)
    drawn = [dice.choice(some, (_RESAMPLES, len(some))).mean(axis=1) for some in (mine, yours)]
    low, high = np.percentile(drawn[0] / drawn[1], [2.5, 97.5])
    text = f"{mine.mean() / yours.mean():.2f} [{low:.2f}, {high:.2f}]"
    open_ours, open_theirs = (any(one.reached is None for one in some) for some in (ours, theirs))
    if open_ours and open_theirs:
        return f"unknown: both have runs that did not get there ({text} at the limit)"
    return f"{text}{' or more' if open_ours else ' or less' if open_theirs else ''}"
