"""Measures the gain of sharing weights and its robustness: the experiments E1, E5 and E6.

Learners are the product's own sessions on CartPole and share through its own exchange in real
folders on disk, several in one process, in lockstep. E1: four that share beside four on their own,
from the same beginnings with the same steps, beside the best of those four and one learner with all
environments. E5: merges lost, beside one shared file. E6: one of four that lies in what it offers,
with and without admission's judgement of values.

The worth of an arm is the area under its learners' curves: the return of their own weights on
frozen starts after each round. Seeds that are done are kept in the folder of states and not
repeated. `--quick` only shows that everything runs.
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from Daddy.core.arguments import whole_number
from Daddy.core.atomic_files import read_json, write_json
from Daddy.core.errors import UsageError
from Daddy.core.load_config import CHECKOUT
from Daddy.learning.startup_preloading import prepare_imports

STATE = CHECKOUT / "runs" / "benches" / "sharing"
SEEDS, QUICK_SEEDS = 20, 2
CONTRIBUTIONS, QUICK_CONTRIBUTIONS = 2_500, 10
"""Of each of four writers in E5."""
RACE = "E5"
OPTIONS: Mapping[str, str | Mapping[str, Any]] = {
    "state": f"folder of finished seeds ({STATE.relative_to(CHECKOUT)})",
    "only": {"metavar": "E1,E5", "help": "some of the experiments"},
    "seeds": {"type": whole_number(1), "metavar": "N", "help": f"seeds of each arm ({SEEDS})"},
    "first": {
        "type": whole_number(1),
        "metavar": "N",
        "default": 1,
        "help": "first seed (1; the length of a run was chosen on 1001 and up)",
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
    """Run the experiments; after Ctrl-C return figures of seeds that ended in all arms."""
    prepare_imports()
    from scripts.benches._sharing_results import TABLES, ArmResults
    from scripts.benches._sharing_tasks import NEEDS

    wanted = chosen(only, [*NEEDS, RACE])
    root = (state or STATE).expanduser().absolute() / ("quick" if quick else "full")
    root.mkdir(parents=True, exist_ok=True)
    count = seeds or (QUICK_SEEDS if quick else SEEDS)
    needed = dict.fromkeys(arm for name in wanted for arm in NEEDS.get(name, ()))
    found = ArmResults(root, tuple(needed), count, quick, first)
    stopped = not _play(found)
    figures = {name: TABLES[name](found) for name in wanted if name in TABLES}
    if RACE in wanted and not stopped:
        figures[RACE] = race(root, QUICK_CONTRIBUTIONS if quick else CONTRIBUTIONS)
    return {
        **({"quick_run": "a smoke test: nothing here is a result"} if quick else {}),
        **dict(sorted(figures.items())),
        "unfinished": len(found.left()),
        "runs": str(root),
    }


def chosen(only: str | None, known: Sequence[str]) -> list[str]:
    """Return the experiments that were asked for, by default all. Raise UsageError."""
    names = [name.strip() for name in only.split(",")] if only else list(known)
    if strange := [name for name in names if name not in known]:
        raise UsageError(f"there is no {strange[0]!r} here", f"some of: {', '.join(sorted(known))}")
    return sorted(names)


def _play(found: Any) -> bool:
    """Play the remaining seeds; return False after Ctrl-C."""
    from scripts.benches._sharing_tasks import play_all

    try:
        for _ in play_all(found.left(), lambda text: print(f"  {text}", flush=True)):
            pass
    except KeyboardInterrupt:
        print("  stopped: the same command goes on from here", flush=True)
        return False
    return True


def race(root: Path, merges: int) -> dict[str, Any]:
    """Run E5 once, on weights as large as CartPole's."""
    from scripts.benches._sharing_learner import first_policy
    from scripts.benches._sharing_race import loss

    path = root / f"race-{merges}.json"
    if not path.exists():
        size = sum(parameter.numel() for parameter in first_policy(0).parameters())
        with tempfile.TemporaryDirectory(prefix="daddy-sharing-") as folder:
            write_json(path, loss(Path(folder), merges, mergers=2, size=size))
    return read_json(path)
