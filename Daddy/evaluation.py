"""Evaluate an agent, or two versions: episodes from fresh seeds, milestones and returns.

Stands below `play`. Promises that every episode is told as it came out, and that the same weights
and seeds give the same table.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from Daddy.core.assists import strange
from Daddy.core.config import load, shared_paths
from Daddy.core.errors import DaddyError, ExitCode, WeightsError
from Daddy.core.files import read_json, write_new
from Daddy.core.intervals import Interval, of_mean, of_share
from Daddy.core.process import run
from Daddy.core.settings import Config
from Daddy.pokemon import story
from Daddy.stage import GAME, Actor, Found, episode
from Daddy.weights.evaluations import PAIRS_LIMIT, Evaluation, write_evaluation
from Daddy.weights.store.records import Version
from Daddy.weights.store.store import Store
from Daddy.weights.whereabouts import Whereabouts, find_at

if TYPE_CHECKING:
    from Daddy.pokemon.env import PokemonRedEnv

FORMAT = 1
_LONGEST_S = 7 * 86_400.0
_RESULT_LIMIT = 1 << 28
_BAR = 24


@dataclass
class Played:
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


def play_one(game: PokemonRedEnv, actor: Actor, seed: int) -> Played:
    """Play an episode to its end; what held at its start does not count as reached."""
    played, held = Played(seed), None
    for moment in episode(game, actor, seed):
        now = story.reached(game.progress, game.rom.real)
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


def judge(
    game: PokemonRedEnv,
    actor: Actor,
    seeds: Sequence[int],
    tell: Callable[[Played, int, int], None],
) -> list[Played]:
    """One episode of each seed; `tell` hears of each, how many are done, and of how many."""
    done: list[Played] = []
    for seed in seeds:
        done.append(play_one(game, actor, seed))
        tell(done[-1], len(done), len(seeds))
    return done


def judge_in_children(
    typed: Sequence[str], seeds: Sequence[int], jobs: int, weights: bytes | None
) -> list[Played]:
    """The same, the seeds shared out among `jobs` processes that play by the flags `typed`.

    All of them play these very `weights`: a run that is being trained moves on meanwhile.
    DaddyError with a child's own exit code when one fails; it has said why.
    """
    with tempfile.TemporaryDirectory(prefix="daddy-evaluate-") as scratch:
        frozen = Path(scratch) / "weights.st"
        if weights is not None:
            write_new(frozen, weights)
            typed = [*typed, "--weights", str(frozen)]
        shares = [seeds[job * len(seeds) // jobs : (job + 1) * len(seeds) // jobs]
                  for job in range(jobs)]  # fmt: skip
        results = [Path(scratch) / f"{job}.json" for job in range(jobs)]
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(partial(_child, typed), shares, results))
        rows = [row for path in results for row in read_json(path, _RESULT_LIMIT)["episodes"]]
    return [Played(**row) for row in rows]


def _child(typed: Sequence[str], seeds: Sequence[int], result: Path) -> None:
    share = ["--seed", str(seeds[0]), "--episodes", str(len(seeds)), "--jobs", "1"]
    argv = [sys.executable, "-m", "Daddy.play", "evaluate", *typed, *share, "--json", str(result)]
    done = run(argv, _LONGEST_S, show_progress=True, die_with_us=sys.platform == "linux")
    if done.returncode:
        failed = DaddyError(f"a process that judged ended with code {done.returncode}", "see above")
        failed.exit_code = ExitCode(done.returncode) if done.returncode > 0 else ExitCode.BUG
        raise failed


def report(label: str, game: PokemonRedEnv, done: Sequence[Played]) -> dict[str, Any]:
    """The whole result as JSON; intervals are 95 %."""
    names = story.names(game.rom.real)
    return {
        "v": FORMAT,
        "weights": label,
        "game": game.rom.name,
        "assists": list(game.assists),
        "episode_steps": game.episode_steps,
        "episodes": [asdict(one) for one in done],
        "return": _interval(of_mean([one.episode_return for one in done])),
        "steps": _interval(of_mean([float(one.steps) for one in done])),
        "won": _interval(of_share(sum(one.won for one in done), len(done))),
        "milestones": {name: _milestone(name, done) for name in names},
    }


def _milestone(name: str, done: Sequence[Played]) -> dict[str, Any]:
    at = sorted(one.reached[name] for one in done if name in one.reached)
    share = _interval(of_share(len(at), len(done)))
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


def table(result: Mapping[str, Any]) -> str:
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


@dataclass(frozen=True)
class Side:
    """One of the two versions that are compared."""

    record: Version
    found: Found


def open_versions(
    where: Path | None, numbers: Sequence[int], assists: Sequence[str]
) -> tuple[Store, list[Side]]:
    """The run's store and the two versions, as they were named. WeightsError when one is not kept.

    ``where`` names a run or a shared folder; None: the configuration's.
    """
    place = find_at(where.expanduser().absolute()) if where else _configured()
    if place.pulled:
        raise WeightsError(
            f"{place.shared.root} is a copy that was pulled", "compare versions on the cluster"
        )
    store = Store(place.shared)
    if (workload := store.card().workload) != GAME:
        raise WeightsError(
            f"{place.shared.root} holds weights of {workload!r}", f"only {GAME} can be played"
        )
    return store, [_side(store, number, assists) for number in numbers]


def _configured() -> Whereabouts:
    config = load(None, {}, os.environ)
    return find_at(shared_paths(config).root)


def _side(store: Store, number: int, assists: Sequence[str]) -> Side:
    from Daddy.weights.encoding.state_codec import decode

    record = store.version(number)
    if foreign := strange(record.assists, assists):
        raise WeightsError(
            f"v{number} was learnt with the assists {foreign}", "name them: --assists"
        )
    weights = decode(store.get_blob(record.state), record.schema)
    return Side(record, Found(f"v{number}", weights))


def comparison(
    pair: Sequence[Side], game: PokemonRedEnv, played: Sequence[Sequence[Played]]
) -> dict[str, Any]:
    """Mean returns and their difference, first version less second, as JSON; 95 % intervals."""
    returns = [[one.episode_return for one in side] for side in played]
    differences = [ours - theirs for ours, theirs in zip(*returns, strict=True)]
    return {
        "v": FORMAT,
        "versions": [one.record.version for one in pair],
        "game": game.rom.name,
        "assists": list(game.assists),
        "episode_steps": game.episode_steps,
        "seeds": [one.seed for one in played[0]],
        "returns": returns,
        "means": [_interval(of_mean(side)) for side in returns],
        "difference": _interval(of_mean(differences)),
    }


def comparison_table(result: Mapping[str, Any]) -> str:
    """The comparison for people."""
    first, second = (f"v{number}" for number in result["versions"])
    count, steps = len(result["seeds"]), result["episode_steps"]
    pairs = f"{count} pairs of episodes of at most {steps:,} steps from the same starts"
    rows = [(first, result["means"][0]), (second, result["means"][1]),
            (f"{first} - {second}", result["difference"])]  # fmt: skip
    lines = [f"{first} and {second} in {result['game']}: {pairs}; 95 % intervals"]
    lines += [f"  {name:14s} return {_range(one, 2)}" for name, one in rows]
    return "\n".join(lines)


def note_comparison(
    store: Store, pair: Sequence[Side], config: Config, result: Mapping[str, Any], now: float
) -> None:
    """Keep the pairs where retention and status look for them; a folder of others is left alone."""
    order = sorted(range(2), key=lambda place: -pair[place].record.version)
    newer, older = (pair[place].record for place in order)
    returns = [result["returns"][place] for place in order]
    training = config.training
    conditions = f"{result['game']} from {training.start}, {result['episode_steps']} steps"
    conditions += f", assists {', '.join(result['assists']) or 'none'}"
    rows = [(int(seed), round(ours, 6), round(theirs, 6))
            for seed, ours, theirs in zip(result["seeds"], *returns, strict=True)]  # fmt: skip
    try:
        for first in range(0, len(rows), PAIRS_LIMIT):
            some = tuple(rows[first : first + PAIRS_LIMIT])
            states = (newer.version, newer.state, older.version, older.state)
            write_evaluation(store, Evaluation(newer.run_id, *states, conditions, some, now))
    except OSError as error:
        print(f"warning: not kept for status: {error}", file=sys.stderr)
