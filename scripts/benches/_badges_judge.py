"""When a run's shared policy has the badge: versions, oldest first, played from the run's start.

A version has it where at least half of its episodes come to it. Versions lie evenly over the run's
steps; what a version is found to be is kept beside the run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.config import CHECKOUT
from Daddy.core.errors import DaddyError
from Daddy.core.files import read_json
from Daddy.core.machine import usable_cores
from Daddy.core.shared_paths import SharedPaths
from Daddy.weights.history import read_history
from Daddy.weights.store.records import Version
from scripts.benches._learning_pool import SPAN
from scripts.benches._learning_runs import Run

LOOKS = 4
"""Versions of a run that are played at most."""
EPISODES = 4
ACTIONS = 1_024
"""Of an episode: twenty times what the scripted player needs."""
_SEED = 1_000_000
"""Of the first episode: no learner trains on it."""
_LIMIT = 1 << 26


def shared_badge(run: Run, episodes: int = EPISODES) -> int | None:
    """Steps of the fleet in the first version looked at that has the badge; None if none has."""
    for record in _spread(read_history(SharedPaths(run.paths.shared_weights)).versions[1:]):
        if _share(run, record, episodes) >= 0.5:
            return record.fleet_steps
    return None


def _spread(versions: Sequence[Version]) -> list[Version]:
    """At most LOOKS of them, the last among them."""
    wanted = min(LOOKS, len(versions))
    return [versions[(one + 1) * len(versions) // wanted - 1] for one in range(wanted)]


def _share(run: Run, record: Version, episodes: int) -> float:
    """The share of episodes in which it comes to the badge."""
    found = run.folder / f"judged-v{record.version}-{episodes}.json"
    if not found.exists():
        _judge(run, record, episodes, found)
    return float(_reached(found, run.part.goal)) / episodes


def _reached(found: Path, milestone: str) -> int:
    told = read_json(found, _LIMIT)["episodes"]
    return sum(milestone in one["reached"] for one in told)


def _judge(run: Run, record: Version, episodes: int, found: Path) -> None:
    weights, made = run.folder / f"v{record.version}.safetensors", found.with_suffix(".tmp")
    _clear(weights)  # a judge that was stopped left it
    training, span = run.settings["training"], run.settings["reward"]["memory_steps"]
    where = ["--run-dir", str(run.paths.root), "--version", str(record.version)]
    _call(run, ["Daddy.weights.model", "export", str(weights), *where])
    how = ["--rom", training["rom"], "--start", training["start"], "--seed", str(_SEED)]
    how += ["--episode-steps", str(ACTIONS), "--episodes", str(episodes), "--json", str(made)]
    how += ["--jobs", str(min(episodes, usable_cores()))]
    _call(run, ["Daddy.play", "evaluate", "--weights", str(weights), *how], **{SPAN: str(span)})
    made.rename(found)
    _clear(weights)


def _clear(weights: Path) -> None:
    """The file, and its card in words."""
    for path in weights.parent.glob(f"{weights.stem}.*"):
        path.unlink()


def _call(run: Run, argv: Sequence[str], **settings: str) -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DADDY", "SLURM"))}
    env = {**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(CHECKOUT), **settings}
    with (run.folder / "log.txt").open("ab") as log:
        command = [sys.executable, "-m", *argv]
        done = subprocess.run(command, env=env, stdout=log, stderr=log, check=False)
    if done.returncode:
        raise DaddyError(f"{run.name}: {argv[0]} failed", f"read {run.folder / 'log.txt'}")
