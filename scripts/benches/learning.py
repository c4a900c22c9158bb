"""Whether the learner learns a long quest: steps to the end of the cartridge, and what spoils it.

`quest`: keys pressed at random and PPO, each with and without the archive; then the final policies
of PPO + archive, from the start of the game and without one. `errand`: a thing to fetch and bring
back over explored ground, with and without forgetting where one was. `obstacle`: what opens only
after a move was taught and used through the menus. `poison`: an archive whose best state leads
nowhere. `farmers`: scripted players that do what ought to earn nothing.

Learners are `python -m Daddy.train_slim` as users run it, one thread each, as many at once as there
are cores, on the cartridge without its busy work. A run stops at its goal or at its limit; those
whose final policies are judged use all their steps. Ended runs are kept in the folder of states and
not repeated, interrupted ones go on: Ctrl-C is no loss.
`--quick` only shows that everything runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from Daddy.core.config import CHECKOUT
from Daddy.core.errors import UsageError
from Daddy.core.files import read_json
from Daddy.core.machine import usable_cores
from Daddy.core.rom import load_rom
from Daddy.learning.prepare import prepare
from Daddy.pokemon.story import names as milestones
from scripts.benches import _learning_farmers as farmers
from scripts.benches import _learning_parts as parts
from scripts.benches import _learning_places as places
from scripts.benches import _learning_poison as poison
from scripts.benches._learning_picture import draw
from scripts.benches._learning_pool import Pool, judgement
from scripts.benches._learning_runs import Part, Run
from scripts.benches._learning_table import Result, ratio, row

STATE = CHECKOUT / "runs" / "benches" / "learning"
SEEDS, JUDGED = 5, 100
QUICK_SEEDS, QUICK_JUDGED = 1, 1
OPTIONS: Mapping[str, str | Mapping[str, Any]] = {
    "state": f"where runs are kept ({STATE.relative_to(CHECKOUT)})",
    "only": {"metavar": "NAME", "help": "one part, or one arm such as 'PPO + archive'"},
    "seeds": {"type": int, "metavar": "N", "help": f"of each arm ({SEEDS})"},
}

Found = dict[str, dict[str, list[Result]]]
"""Part → arm → its ended runs by seed."""


def run(
    quick: bool, state: Path | None = None, only: str | None = None, seeds: int | None = None
) -> dict[str, object]:
    """Everything as it came out; after Ctrl-C, of the runs that had ended."""
    prepare()
    root = (state or STATE).expanduser().absolute() / ("quick" if quick else "full")
    game = places.game(root / "game")
    count = seeds or (QUICK_SEEDS if quick else SEEDS)
    runs = _runs(root, parts.parts(game, quick), only, count)
    pool = Pool(
        game, QUICK_JUDGED if quick else JUDGED, lambda text: print(f"  {text}", flush=True)
    )
    stopped = not _play(pool, runs, root / "learning.png")
    figures = _figures(runs) | parts.absent()
    if only in (None, farmers.NAME) and not stopped:
        figures[farmers.NAME] = farmers.run(game, quick)
    return {
        **({"quick": "a smoke test: nothing here is a result"} if quick else {}),
        "game": load_rom(game).name,
        "side_by_side": usable_cores(),
        **figures,
        "unfinished": sum(not one.done.exists() for one in runs),
        "code": sorted({name for one in runs for name in one.code()}),
        "picture": str(root / "learning.png"),
        "runs": str(root),
    }


def _runs(root: Path, known: Sequence[Part], only: str | None, seeds: int) -> list[Run]:
    """Seed by seed, so that an interrupted bench has some of everything. UsageError."""
    names = {part.name for part in known} | {arm.name for part in known for arm in part.arms}
    if only is not None and only not in names | {farmers.NAME}:
        raise UsageError(f"there is no {only!r} here", f"one of: {', '.join(sorted(names))}")
    return [
        Run(root, part, arm, seed)
        for seed in range(1, 1 + seeds)
        for part in known
        for arm in part.arms
        if only in (None, part.name, arm.name)
    ]


def _play(pool: Pool, runs: Sequence[Run], picture: Path) -> bool:
    """Play what is left; False if the person had enough. The picture grows with each run."""
    try:
        for _ in pool.play(runs):
            draw(picture, _found(runs))
    except KeyboardInterrupt:
        print("  stopped: the same command goes on from here", flush=True)
        return False
    return True


def _found(runs: Sequence[Run]) -> Found:
    found: Found = {}
    for one in runs:
        if one.done.exists():
            found.setdefault(one.part.name, {}).setdefault(one.arm.name, []).append(_result(one))
    return found


def _result(run: Run) -> Result:
    done, story = read_json(run.done), run.story()
    reached, limit = story.firsts.get(run.part.goal), run.part.limit
    return Result(
        *(run.seed, reached, story.step, limit, float(done["wall_s"])),
        *(_earned(run, story.firsts), _won(run), poison.note(run)),
    )


def _earned(run: Run, firsts: Mapping[str, int]) -> dict[str, int]:
    """Milestones without those that the start held, and those that only the poison did."""
    names, note = milestones(real=False), poison.note(run)
    given, claimed = names[: run.part.given], names[: note.get("rank", 0)]
    return {
        name: step
        for name, step in firsts.items()
        if name not in given and not (name in claimed and step >= note["step"])
    }


def _won(run: Run) -> tuple[int, int] | None:
    if not run.judged.exists():
        return None
    episodes = judgement(run)["episodes"]
    return sum(one["won"] for one in episodes), len(episodes)


def _figures(runs: Sequence[Run]) -> dict[str, object]:
    figures: dict[str, object] = {}
    goals = {one.part.name: (one.part.goal, one.part.limit) for one in runs}
    for name, arms in _found(runs).items():
        goal, limit = goals[name]
        told: dict[str, object] = {"goal": goal, "limit": limit}
        told |= {arm: row(results) for arm, results in arms.items()}
        figures[name] = told | _ratios(arms)
    return figures


def _ratios(arms: Mapping[str, Sequence[Result]]) -> dict[str, str]:
    """What the issue asks for of the quest; elsewhere the part's first arm over its second."""
    ours, theirs = parts.PPO_ARCHIVE.name, parts.RANDOM_ARCHIVE.name
    if not {ours, theirs} <= arms.keys():
        if len(arms) != 2:
            return {}
        ours, theirs = arms
    return {f"steps of {ours} / {theirs}": ratio(arms[ours], arms[theirs])}
