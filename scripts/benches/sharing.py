"""What sharing weights is worth and what it survives: the experiments E1 to E8.

Learners are the product's own sessions and share through its own exchange in real folders on disk,
several in one process, in lockstep. E1: four that share beside four on their own, from the same
beginnings, with the same steps; and, for the record, beside the best of those four, one learner
with all environments, eight that share and four with two slow laptops. E2: steps until all four
have found the only reward of a grid world, shared and alone. E3: how much of it each has seen. All
others are played on CartPole. E4: half of the syncs
missed, jobs killed, all of them handed over. E5: merges lost, beside one shared file. E6: a member
that lies. E7: versions that come a round late, with the round since rebased or dropped. E8: what a
policy does after it was sent in half the bytes.

The worth of an arm is the area under its learners' curves: what their own weights, as they are
after sharing, earn on frozen starts after each round. Seeds that are done are kept in the folder of
states and not repeated. `--quick` only shows that everything runs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from Daddy.core.config import CHECKOUT
from Daddy.core.errors import UsageError
from Daddy.core.files import read_json, write_json
from Daddy.learning.prepare import prepare

STATE = CHECKOUT / "runs" / "benches" / "sharing"
SEEDS, QUICK_SEEDS = 20, 2
CONTRIBUTIONS, QUICK_CONTRIBUTIONS = 2_500, 10
"""Of each of four writers in E5."""
RACE = "E5"
OPTIONS: Mapping[str, str | Mapping[str, Any]] = {
    "state": f"where finished seeds are kept ({STATE.relative_to(CHECKOUT)})",
    "only": {"metavar": "E1,E5", "help": "some of the experiments"},
    "seeds": {"type": int, "metavar": "N", "help": f"of each arm ({SEEDS})"},
    "first": {
        "type": int,
        "metavar": "N",
        "default": 1,
        "help": "the first seed (1; 1001 and up: those on which the length of a run was chosen)",
    },
}
FLAT = True


def run(
    quick: bool,
    state: Path | None = None,
    only: str | None = None,
    seeds: int | None = None,
    first: int = 1,
) -> dict[str, object]:
    """Every experiment's figures; after Ctrl-C, of the seeds that had ended in all its arms."""
    prepare()
    from scripts.benches import _sharing_arms as arms
    from scripts.benches._sharing_picture import draw
    from scripts.benches._sharing_table import TABLES, Found

    wanted = chosen(only, [*arms.NEEDS, RACE])
    root = (state or STATE).expanduser().absolute() / ("quick" if quick else "full")
    root.mkdir(parents=True, exist_ok=True)
    count = seeds or (QUICK_SEEDS if quick else SEEDS)
    needed = dict.fromkeys(arm for name in wanted for arm in arms.NEEDS.get(name, ()))
    found = Found(root, tuple(needed), count, quick, first)
    stopped = not _play(found, root / "sharing.png")
    figures = {name: TABLES[name](found) for name in wanted if name in TABLES}
    if RACE in wanted and not stopped:
        figures[RACE] = race(root, QUICK_CONTRIBUTIONS if quick else CONTRIBUTIONS)
    draw(root / "sharing.png", found)
    return {
        **({"quick_run": "a smoke test: nothing here is a result"} if quick else {}),
        **dict(sorted(figures.items())),
        "steps_each": arms.SHARED.rounds(quick) * arms.steps_of_a_round(),
        "unfinished": len(found.left()),
        "picture": str(root / "sharing.png"),
        "runs": str(root),
    }


def chosen(only: str | None, known: Sequence[str]) -> list[str]:
    """The experiments that were asked for, all by default. UsageError for a name that is none."""
    names = [name.strip() for name in only.split(",")] if only else list(known)
    if strange := [name for name in names if name not in known]:
        raise UsageError(f"there is no {strange[0]!r} here", f"some of: {', '.join(sorted(known))}")
    return sorted(names)


def _play(found: Any, picture: Path) -> bool:
    """Play what is left; False if the person had enough. The picture grows with each seed."""
    from scripts.benches._sharing_picture import draw
    from scripts.benches._sharing_tasks import play_all

    try:
        for left in play_all(found.left(), lambda text: print(f"  {text}", flush=True)):
            if left % len(found.arms) == 0:
                draw(picture, found)
    except KeyboardInterrupt:
        print("  stopped: the same command goes on from here", flush=True)
        return False
    return True


def race(root: Path, merges: int) -> dict[str, Any]:
    """E5 on weights as large as CartPole's, once."""
    from scripts.benches._sharing_learner import first_policy
    from scripts.benches._sharing_race import loss

    path = root / f"race-{merges}.json"
    if not path.exists():
        size = sum(one.numel() for one in first_policy(0).parameters())
        with tempfile.TemporaryDirectory(prefix="daddy-sharing-") as folder:
            write_json(path, loss(Path(folder), merges, mergers=2, size=size))
    return read_json(path)
