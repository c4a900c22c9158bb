"""Evaluate an agent, or two versions: episodes from fresh seeds, milestones and returns.

Stands below `play`. Promises that every episode is told as it came out, and that the same weights
and seeds give the same table.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from Daddy.core.assist_rules import refuse_missing_assists
from Daddy.core.clock import SystemClock
from Daddy.core.confidence_intervals import Interval, mean_interval, share_interval
from Daddy.core.errors import DaddyError, WeightsError
from Daddy.core.load_config import load_config, shared_paths
from Daddy.core.machine_info import die_with_parent
from Daddy.core.settings import Config
from Daddy.learning.preloading import prepare_imports
from Daddy.playback_setup import (
    LoadedWeights,
    episode_steps,
    make_actor,
    open_game,
    refuse_other_workload,
)
from Daddy.pokemon import story_milestones
from Daddy.weights.evaluations import PAIRS_LIMIT, Evaluation, write_evaluation
from Daddy.weights.locate_weights import locate_at
from Daddy.weights.store.weight_records import Version
from Daddy.weights.store.weight_store import Store

if TYPE_CHECKING:
    from Daddy.playback_setup import Actor
    from Daddy.pokemon.env import PokemonRedEnv

FORMAT = 1
_BAR = 24


@dataclass
class EpisodeResult:
    """One episode: `reached` maps each milestone to the step that first held it.

    `assisted` are those among them before which a scripted help had acted.
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


def play_one_episode(game: PokemonRedEnv, actor: Actor, seed: int) -> EpisodeResult:
    """Play an episode to its end; what held at its start does not count as reached."""
    played, held = EpisodeResult(seed), None
    for moment in episode_steps(game, actor, seed):
        now = story_milestones.reached_milestones(game.progress, game.rom.real)
        held = now if held is None else held
        for name in now - held - played.reached.keys():
            played.reached[name] = moment.step
            played.assisted += [name] if game.assists_used else []
        played.steps, played.won = moment.step, moment.won
        played.episode_return += moment.reward
    facts = dict(zip(game.telemetry_names, game.telemetry(), strict=True))
    played.badges = int(facts["badges"])
    played.maps, played.cells = int(facts["maps"]), int(facts["cells"])
    return played


def evaluate_episodes(
    game: PokemonRedEnv, actor: Actor, seeds: Sequence[int]
) -> list[EpisodeResult]:
    """One episode of each seed; each is told on stderr."""
    done, names = list[EpisodeResult](), len(story_milestones.milestone_names(game.rom.real))
    for seed in seeds:
        played = play_one_episode(game, actor, seed)
        done.append(played)
        reached = f"{len(played.reached)} of {names} milestones in {played.steps} steps"
        line = f"seed {seed}: return {played.episode_return:.2f}, {reached}"
        print(f"  {len(done):3d}/{len(seeds)}  {line}", file=sys.stderr, flush=True)
    return done


def evaluate_in_processes(
    config: Config,
    game: PokemonRedEnv,
    found: LoadedWeights | None,
    seeds: Sequence[int],
    jobs: int,
) -> list[EpisodeResult]:
    """The same, with these weights (None: random buttons), on `jobs` processes.

    All of them play the very same weights: a run that is being trained moves on meanwhile.
    """
    actor, jobs = make_actor(game, found), min(jobs, len(seeds))
    if jobs == 1:
        return evaluate_episodes(game, actor, seeds)
    shares = [seeds[job * len(seeds) // jobs : (job + 1) * len(seeds) // jobs]
              for job in range(jobs)]  # fmt: skip
    share = partial(_judge_share, os.getpid(), config, found)
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        try:
            return [played for done in pool.map(share, shares) for played in done]
        except BrokenProcessPool as error:
            raise DaddyError("a process that judged was killed", "ask for fewer --jobs") from error
        except KeyboardInterrupt:
            for child in active_children():
                child.terminate()
            raise


def _judge_share(
    parent: int, config: Config, found: LoadedWeights | None, seeds: Sequence[int]
) -> list[EpisodeResult]:
    """A child's part."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    die_with_parent(parent)
    prepare_imports()
    with closing(open_game(config)) as game:
        return evaluate_episodes(game, make_actor(game, found), seeds)


def result_as_json(
    label: str, game: PokemonRedEnv, done: Sequence[EpisodeResult]
) -> dict[str, Any]:
    """The whole result as JSON; intervals are 95 %."""
    names = story_milestones.milestone_names(game.rom.real)
    return {
        "v": FORMAT,
        "weights": label,
        "game": game.rom.name,
        "assists": list(game.assists),
        "episode_steps": game.episode_steps,
        "episodes": [asdict(one) for one in done],
        "return": _interval(mean_interval([one.episode_return for one in done])),
        "steps": _interval(mean_interval([float(one.steps) for one in done])),
        "won": _interval(share_interval(sum(one.won for one in done), len(done))),
        "milestones": {name: _milestone(name, done) for name in names},
    }


def _milestone(name: str, done: Sequence[EpisodeResult]) -> dict[str, Any]:
    at = sorted(one.reached[name] for one in done if name in one.reached)
    share = _interval(share_interval(len(at), len(done)))
    helped = sum(name in one.assisted for one in done)
    return {
        "reached": len(at),
        "assisted": helped,
        **share,
        "median_step": median(at) if at else None,
    }


def _interval(one: Interval) -> dict[str, float | None]:
    """JSON knows no infinity: where nothing is known stands null."""
    whole = one.low > float("-inf")
    return {
        "mean": one.middle,
        "low": one.low if whole else None,
        "high": one.high if whole else None,
    }


def format_result(result: Mapping[str, Any]) -> str:
    """The result for people: returns, then every milestone that somebody reached."""
    count = len(result["episodes"])
    what = f"{count} episodes of at most {result['episode_steps']:,} steps; 95 % intervals"
    sums = f"return {_range(result['return'], 2)}   steps {_range(result['steps'], 0)}"
    lines = [
        f"{result['weights']} in {result['game']}: {what}",
        f"  {sums}   won {_percent(result['won'])}",
        "",
        f"  {'milestone':26s} reached   share of episodes" + " " * (_BAR - 2) + "median step",
    ]
    if result["assists"]:
        lines[1:1] = [f"  assists: {', '.join(result['assists'])}"]
        lines[-1] += "  assisted"
    some = {name: one for name, one in result["milestones"].items() if one["reached"]}
    for name, one in some.items():
        bar = "#" * round(_BAR * one["mean"])
        told = f"{one['reached']:3d} of {count:<3d} {_percent(one):>18s}  {bar:{_BAR}s}"
        helped = f" {one['assisted']:9d}" if result["assists"] else ""
        lines.append(f"  {name:26s} {told} {one['median_step']:8.0f}{helped}")
    missing = len(result["milestones"]) - len(some)
    lines.append(f"  {missing} of {len(result['milestones'])} milestones were never reached")
    return "\n".join(lines)


def _range(one: Mapping[str, float | None], digits: int) -> str:
    if one["low"] is None:
        return f"{one['mean']:.{digits}f} (one episode: no interval)"
    return f"{one['mean']:.{digits}f} [{one['low']:.{digits}f}, {one['high']:.{digits}f}]"


def _percent(one: Mapping[str, Any]) -> str:
    return f"{100 * one['mean']:.0f} % [{100 * one['low']:.0f}, {100 * one['high']:.0f}]"


# -- two versions of a run


def compare_versions(
    config: Config, where: Path | None, numbers: Sequence[int], seeds: Sequence[int], jobs: int
) -> dict[str, Any]:
    """Judge two versions from the same seeds; the comparison as JSON, and noted for status.

    ``where`` names a run or a shared folder; None: the configuration's. WeightsError when one of
    the versions is not kept.
    """
    store = _open_store(where)
    versions = [store.version(number) for number in numbers]
    found = [_weights_of(store, version, config.training.assists) for version in versions]
    with closing(open_game(config)) as game:
        played = [evaluate_in_processes(config, game, weights, seeds, jobs) for weights in found]
        result = comparison_as_json(numbers, game, played)
    _note(store, versions, config, result)
    return result


def _open_store(where: Path | None) -> Store:
    root = (
        where.expanduser().absolute()
        if where
        else shared_paths(load_config(None, {}, os.environ)).root
    )
    place = locate_at(root)
    if place.pulled:
        raise WeightsError(
            f"{place.shared.root} is a copy that was pulled", "compare versions on the cluster"
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
    """Mean returns and their difference, first version less second, as JSON; 95 % intervals."""
    returns = [[one.episode_return for one in side] for side in played]
    differences = [ours - theirs for ours, theirs in zip(*returns, strict=True)]
    return {
        "v": FORMAT,
        "versions": list(numbers),
        "game": game.rom.name,
        "assists": list(game.assists),
        "episode_steps": game.episode_steps,
        "seeds": [one.seed for one in played[0]],
        "returns": returns,
        "means": [_interval(mean_interval(side)) for side in returns],
        "difference": _interval(mean_interval(differences)),
    }


def format_comparison(result: Mapping[str, Any]) -> str:
    """The comparison for people."""
    first, second = (f"v{number}" for number in result["versions"])
    count, steps = len(result["seeds"]), result["episode_steps"]
    pairs = f"{count} pairs of episodes of at most {steps:,} steps from the same starts"
    rows = [(first, result["means"][0]), (second, result["means"][1]),
            (f"{first} - {second}", result["difference"])]  # fmt: skip
    lines = [f"{first} and {second} in {result['game']}: {pairs}; 95 % intervals"]
    lines += [f"  {name:14s} return {_range(one, 2)}" for name, one in rows]
    return "\n".join(lines)


def _note(
    store: Store, versions: Sequence[Version], config: Config, result: Mapping[str, Any]
) -> None:
    """Keep the pairs where retention and status look for them; a folder of others is left alone."""
    sides = sorted(zip(versions, result["returns"], strict=True), key=lambda side: -side[0].version)
    (newer, ours), (older, theirs) = sides
    conditions = f"{result['game']} from {config.training.start}, {result['episode_steps']} steps"
    conditions += f", assists {', '.join(result['assists']) or 'none'}"
    rows = [(int(seed), round(mine, 6), round(other, 6))
            for seed, mine, other in zip(result["seeds"], ours, theirs, strict=True)]  # fmt: skip
    states = (newer.version, newer.state, older.version, older.state)
    now = SystemClock().now()
    try:
        for first in range(0, len(rows), PAIRS_LIMIT):
            pairs = tuple(rows[first : first + PAIRS_LIMIT])
            write_evaluation(store, Evaluation(newer.run_id, *states, conditions, pairs, now))
    except OSError as error:
        print(f"warning: not kept for status: {error}", file=sys.stderr)
