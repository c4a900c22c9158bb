"""Evaluates an agent or compares two versions: plays one episode per seed, counts milestones.

Part of `play`. Every episode is reported; equal weights and seeds give equal results.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from multiprocessing import active_children, get_context
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from Daddy.core.assist_compatibility import refuse_missing_assists
from Daddy.core.clock import SystemClock
from Daddy.core.confidence_intervals import Interval, mean_interval, share_interval
from Daddy.core.errors import DaddyError, WeightsError
from Daddy.core.host_and_processes import die_with_parent
from Daddy.core.load_config import load_config, shared_paths
from Daddy.core.process_pool import interrupts_blocked
from Daddy.core.screen_tables import make_table
from Daddy.core.settings import Config
from Daddy.learning.startup_preloading import prepare_imports
from Daddy.playback_setup import (
    LoadedWeights,
    ProgressLines,
    episode_steps,
    make_actor,
    open_game,
    refuse_other_workload,
)
from Daddy.pokemon import story_milestones
from Daddy.weights.evaluations import PAIRS_LIMIT, Evaluation, write_evaluation
from Daddy.weights.locate_shared_weights import locate_at
from Daddy.weights.store.weight_records import Version
from Daddy.weights.store.weight_store import Store

if TYPE_CHECKING:
    from Daddy.playback_setup import Actor
    from Daddy.pokemon.env import PokemonRedEnv

Weights = LoadedWeights | None
FORMAT = 1
_BAR = 24


@dataclass
class EpisodeResult:
    """Holds an episode's result; `reached` maps a milestone to the step that first reached it.

    `assisted` names the milestones that were reached after an assist had acted.
    """

    seed: int
    steps: int = 0
    episode_return: float = 0.0
    won: bool = False
    badges: int = 0
    maps: int = 0
    cells: int = 0
    reached: dict[str, int] = field(default_factory=dict)
    assisted: list[str] = field(default_factory=list)


def play_one_episode(
    game: PokemonRedEnv, actor: Actor, seed: int, report: Callable[[str], None] = lambda _: None
) -> EpisodeResult:
    """Play an episode to its end; return its result, without the start state's milestones."""
    played, held = EpisodeResult(seed), None
    for step in episode_steps(game, actor, seed):
        now = story_milestones.reached_milestones(game.progress, game.rom.real)
        held = now if held is None else held
        for name in now - held - played.reached.keys():
            played.reached[name] = step.step
            played.assisted += [name] if game.assists_used else []
        report(f"seed {seed}: {step.step:,} steps")
        played.steps, played.won = step.step, step.won
        played.episode_return += step.reward
    facts = dict(zip(game.telemetry_names, game.telemetry(), strict=True))
    played.badges = int(facts["badges"])
    played.maps, played.cells = int(facts["maps"]), int(facts["cells"])
    return played


def evaluate_episodes(
    game: PokemonRedEnv, actor: Actor, seeds: Sequence[int]
) -> list[EpisodeResult]:
    """Play one episode per seed, print a line about each to stderr, and return the results."""
    results, names = list[EpisodeResult](), len(story_milestones.milestone_names(game.rom.real))
    progress = ProgressLines(SystemClock())
    for seed in seeds:
        played = play_one_episode(game, actor, seed, progress.show)
        results.append(played)
        reached = f"{len(played.reached)} of {names} milestones in {played.steps} steps"
        line = f"seed {seed}: return {played.episode_return:.2f}, {reached}"
        print(f"  {len(results):3d}/{len(seeds)}  {line}", file=sys.stderr, flush=True)
    return results


def evaluate_parallel(
    config: Config,
    game: PokemonRedEnv,
    candidates: Sequence[Weights],
    seeds: Sequence[int],
    jobs: int,
) -> list[list[EpisodeResult]]:
    """Play one episode per seed with each candidate (None: random buttons) on `jobs` processes.

    The processes get the weights themselves, whatever the run publishes meanwhile. Returns one list
    per candidate. Raises WeightsError for weights of another shape, DaddyError if a process is
    killed.
    """
    actors, jobs = [make_actor(game, weights) for weights in candidates], min(jobs, len(seeds))
    if jobs == 1:
        return [evaluate_episodes(game, actor, seeds) for actor in actors]
    shares = [seeds[job * len(seeds) // jobs : (job + 1) * len(seeds) // jobs]
              for job in range(jobs)]  # fmt: skip
    plays = [partial(_evaluate_share, os.getpid(), config, weights) for weights in candidates]
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        try:
            with interrupts_blocked():  # `map` starts the processes
                played = [pool.map(play, shares) for play in plays]
            return [[*chain.from_iterable(results)] for results in played]
        except BrokenProcessPool as error:
            raise DaddyError("an evaluating process was killed", "use fewer --jobs") from error
        except KeyboardInterrupt:
            for child in active_children():
                child.terminate()
            raise


def _evaluate_share(
    parent: int, config: Config, weights: Weights, seeds: Sequence[int]
) -> list[EpisodeResult]:
    """Play one episode for each of `seeds` in this child process, which ends with its parent."""
    die_with_parent(parent)
    prepare_imports()
    with closing(open_game(config)) as game:
        return evaluate_episodes(game, make_actor(game, weights), seeds)


def result_as_json(
    label: str, game: PokemonRedEnv, results: Sequence[EpisodeResult]
) -> dict[str, Any]:
    """Return the results of all episodes as a JSON object, with 95 % confidence intervals."""
    names = story_milestones.milestone_names(game.rom.real)
    return {
        "v": FORMAT,
        "weights": label,
        "game": game.rom.name,
        "assists": list(game.assists),
        "episode_steps": game.episode_steps,
        "episodes": [asdict(result) for result in results],
        "return": _interval(mean_interval([result.episode_return for result in results])),
        "steps": _interval(mean_interval([float(result.steps) for result in results])),
        "won": _interval(share_interval(sum(result.won for result in results), len(results))),
        "milestones": {name: _milestone(name, results) for name in names},
    }


def _milestone(name: str, results: Sequence[EpisodeResult]) -> dict[str, Any]:
    steps = sorted(result.reached[name] for result in results if name in result.reached)
    share = _interval(share_interval(len(steps), len(results)))
    helped = sum(name in result.assisted for result in results)
    step = median(steps) if steps else None
    return {"reached": len(steps), "assisted": helped, **share, "median_step": step}


def _interval(interval: Interval) -> dict[str, float | None]:
    """Return an interval as a JSON object; an infinite interval has null as its two ends."""
    finite = interval.low > float("-inf")
    low, high = (interval.low, interval.high) if finite else (None, None)
    return {"mean": interval.middle, "low": low, "high": high}


def render_result(result: Mapping[str, Any], width: int) -> RenderableType:
    """Return the object of `result_as_json` as a screen: returns, then each milestone reached."""
    count, assists = len(result["episodes"]), result["assists"]
    episodes = f"{count} episodes of at most {result['episode_steps']:,} steps; 95 % intervals"
    sums = f"return {_range(result['return'], 2)}   steps {_range(result['steps'], 0)}"
    reached = {name: row for name, row in result["milestones"].items() if row["reached"]}
    missing = len(result["milestones"]) - len(reached)
    parts: list[RenderableType] = [
        *[Text(f"assists: {', '.join(assists)}")] * bool(assists),
        Text(f"{sums}   won {_percent(result['won'])}\n"),
        make_table(
            ["milestone", ">reached", ">share of episodes", "", ">median step", ">assisted"],
            [_milestone_cells(name, row, count, helped=bool(assists))
             for name, row in reached.items()],
            width - 2,
            ("", "assisted", "median step", "share of episodes"),
        ),
        Text(f"{missing} of {len(result['milestones'])} milestones were never reached"),
    ]  # fmt: skip
    first = Text(f"{result['weights']} in {result['game']}: {episodes}")
    return Group(first, Padding(Group(*parts), (0, 0, 0, 2)))


def _milestone_cells(name: str, row: Mapping[str, Any], count: int, *, helped: bool) -> list[str]:
    share, median_step = f"{row['reached']} of {count}", f"{row['median_step']:.0f}"
    bar = "#" * round(_BAR * row["mean"])
    return [name, share, _percent(row), bar, median_step, str(row["assisted"]) if helped else ""]


def _range(row: Mapping[str, float | None], digits: int) -> str:
    if row["low"] is None:
        return f"{row['mean']:.{digits}f} (one episode: no interval)"
    return f"{row['mean']:.{digits}f} [{row['low']:.{digits}f}, {row['high']:.{digits}f}]"


def _percent(row: Mapping[str, Any]) -> str:
    return f"{100 * row['mean']:.0f} % [{100 * row['low']:.0f}, {100 * row['high']:.0f}]"


# -- two versions of a run


def compare_versions(
    config: Config, where: Path | None, numbers: Sequence[int], seeds: Sequence[int], jobs: int
) -> dict[str, Any]:
    """Evaluate two versions on the same seeds; return the comparison as JSON and store it.

    ``where`` is a run or a shared folder; None: the configured one. Raises WeightsError when the
    weights of a version are no longer stored.
    """
    store = _open_store(where)
    versions = [store.version(number) for number in numbers]
    loaded = [_weights_of(store, version, config.training.assists) for version in versions]
    with closing(open_game(config)) as game:
        played = evaluate_parallel(config, game, loaded, seeds, jobs)
        result = comparison_as_json(numbers, game, played)
    _store_pairs(store, versions, config, result)
    return result


def _open_store(where: Path | None) -> Store:
    if where is None:
        where = shared_paths(load_config(None, {}, os.environ)).root
    place = locate_at(where.expanduser().absolute())
    if place.pulled:
        raise WeightsError(
            f"{place.shared.root} is a pulled copy", "compare versions on the cluster"
        )
    store = Store(place.shared)
    refuse_other_workload(store.card().workload, place.shared.root)
    return store


def _weights_of(store: Store, version: Version, assists: Sequence[str]) -> LoadedWeights:
    from Daddy.weights.encoding.state_codec import decode

    refuse_missing_assists(f"v{version.version}", version.assists, assists)
    weights = decode(store.read_blob(version.state), version.schema)
    return LoadedWeights(f"v{version.version}", weights)


def comparison_as_json(
    numbers: Sequence[int], game: PokemonRedEnv, played: Sequence[Sequence[EpisodeResult]]
) -> dict[str, Any]:
    """Return both mean returns, and the first minus the second, as JSON with 95 % intervals."""
    returns = [[result.episode_return for result in side] for side in played]
    differences = [ours - theirs for ours, theirs in zip(*returns, strict=True)]
    return {
        "v": FORMAT,
        "versions": list(numbers),
        "game": game.rom.name,
        "assists": list(game.assists),
        "episode_steps": game.episode_steps,
        "seeds": [result.seed for result in played[0]],
        "returns": returns,
        "means": [_interval(mean_interval(side)) for side in returns],
        "difference": _interval(mean_interval(differences)),
    }


def format_comparison(result: Mapping[str, Any]) -> str:
    """Format the object of `comparison_as_json` as a table of text."""
    first, second = (f"v{number}" for number in result["versions"])
    count, steps = len(result["seeds"]), result["episode_steps"]
    pairs = f"{count} pairs of episodes of at most {steps:,} steps from the same starts"
    rows = [(first, result["means"][0]), (second, result["means"][1]),
            (f"{first} - {second}", result["difference"])]  # fmt: skip
    lines = [f"{first} and {second} in {result['game']}: {pairs}; 95 % intervals"]
    lines += [f"  {name:14s} return {_range(row, 2)}" for name, row in rows]
    return "\n".join(lines)


def _store_pairs(
    store: Store, versions: Sequence[Version], config: Config, result: Mapping[str, Any]
) -> None:
    """Store the two returns of each seed in the run's folder; print a warning on an OSError."""
    sides = sorted(zip(versions, result["returns"], strict=True), key=lambda side: -side[0].version)
    (newer, ours), (older, theirs) = sides
    conditions = f"{result['game']} from {config.training.start}, {result['episode_steps']} steps"
    conditions += f", assists {', '.join(result['assists']) or 'none'}"
    rows = [(int(seed), round(new, 6), round(old, 6))
            for seed, new, old in zip(result["seeds"], ours, theirs, strict=True)]  # fmt: skip
    states = (newer.version, newer.state, older.version, older.state)
    now = SystemClock().now()
    try:
        for first in range(0, len(rows), PAIRS_LIMIT):
            pairs = tuple(rows[first : first + PAIRS_LIMIT])
            write_evaluation(store, Evaluation(newer.run_id, *states, conditions, pairs, now))
    except OSError as error:
        print(f"warning: the comparison was not stored for `status`: {error}", file=sys.stderr)
