"""How good an agent is: episodes from fresh seeds, milestones and returns with their uncertainty.

Stands below `play`. Promises that every episode is told as it came out, and that the same weights
and seeds give the same table.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from Daddy.core.errors import DaddyError, ExitCode
from Daddy.core.files import read_json, write_new
from Daddy.core.intervals import Interval, of_mean, of_share
from Daddy.core.process import run
from Daddy.pokemon import story
from Daddy.stage import Actor, episode

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
