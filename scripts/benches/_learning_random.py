"""Entry: plays uniformly random keys in a learner's environments, as a baseline.

``python -m scripts.benches._learning_random --config FILE`` takes the same file as
`Daddy.train_slim`. It makes the same environments with the same archive and seeds, checks
milestones as often, writes the same events, resumes from its newest checkpoint, and has the same
exit codes. With ``--learns`` it runs `Daddy.train_slim` with shorter spans of the archive.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from Daddy import train_slim, workloads
from Daddy.core.arguments import ArgumentParser
from Daddy.core.clock import SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ExitCode
from Daddy.core.event_log import EventWriter
from Daddy.core.hyperparameters import resolve_settings, seed_for
from Daddy.core.job_environment import SLOT
from Daddy.core.load_config import load_config, run_paths
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config
from Daddy.core.stop_conditions import StopSignal
from Daddy.learning.interfaces import EpisodeEnd
from Daddy.learning.startup_preloading import prepare_imports
from Daddy.learning.vector_rows import VectorEnv
from Daddy.workloads import WORKLOADS

if TYPE_CHECKING:
    from Daddy.learning.behaviour_metrics import Milestones

_SAVE_S = 30.0
PEER = "slot-0"
"""Peer whose seeds the environments get."""


@dataclass
class RandomPlayer:
    """Presses random keys, rollout after rollout, and writes events and checkpoints."""

    config: Config
    vector: VectorEnv
    events: EventWriter
    checkpoints: Path
    step: int = 0
    rng: np.random.Generator = field(init=False)
    milestones: Milestones = field(init=False)

    def __post_init__(self) -> None:
        from Daddy.learning.behaviour_metrics import Milestones

        self._seed = seed_for(self.config.training.seed, PEER)
        self.rng = np.random.default_rng(seed_for(self._seed, "random keys"))
        row = WORKLOADS[self.config.training.workload]
        self.milestones = Milestones(row.milestones_reached, row.assists_used)

    def start(self) -> None:
        """Start a new game, or resume from the newest checkpoint."""
        from Daddy.learning.checkpoint import load_newest, tensor_to_bytes

        loaded = load_newest(self.checkpoints)
        count = self.vector.num_envs
        if loaded is None:
            self.vector.reset([seed_for(self._seed, "environment", env=n) for n in range(count)])
            return
        tensors, facts = loaded.checkpoint.tensors, loaded.checkpoint.facts
        self.vector.load_states(
            [tensor_to_bytes(tensors[f"environment.{n}"]) for n in range(count)]
        )
        self.step, self.milestones.first = loaded.checkpoint.step, dict(facts["milestones"])
        self.rng.bit_generator.state = facts["keys"]

    def play_rollout(self, horizon: int) -> None:
        """Play one horizon in every environment; write new milestones and ended episodes."""
        from Daddy.learning.behaviour_metrics import rows_to_facts

        ended: list[EpisodeEnd] = []
        count, keys = self.vector.num_envs, int(self.vector.action_space.n)
        for _ in range(horizon):
            ended += self.vector.step(self.rng.integers(keys, size=count)).episodes
        self.step += horizon * count
        now = rows_to_facts(self.vector.telemetry_names, self.vector.telemetry())
        facts = [*(end.info.get("summary", {}) for end in ended), *now]
        for name in self.milestones.record_new(self.step, facts):
            self.events.write("progress", self.step, {"milestone": name, "assists": []})
        if ended:
            returns = [round(end.episode_return, 4) for end in ended]
            columns = {"returns": returns, "lengths": [int(end.length) for end in ended]}
            self.events.write("result", self.step, {"result": "episodes", **columns})
        self.events.write("metric", self.step, {"milestones": float(len(self.milestones.first))})

    def save(self) -> None:
        """Write a checkpoint like a learner's, without a network."""
        from Daddy.learning.checkpoint import Checkpoint, bytes_to_tensor, save_checkpoint

        states = enumerate(self.vector.save_states())
        tensors = {f"environment.{number}": bytes_to_tensor(state) for number, state in states}
        facts = {
            "workload": self.config.training.workload,
            "milestones": dict(self.milestones.first),
            "keys": self.rng.bit_generator.state,
        }
        save_checkpoint(self.checkpoints, Checkpoint(1, self.step, tensors, facts), max_keep=2)
        self.events.write("state", self.step, {"state": "checkpointed"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run the player; exit code 0 if all steps were played, 10 if it was stopped."""
    parser = ArgumentParser(prog="_learning_random", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, metavar="FILE")
    parser.add_argument(
        "--learns",
        action="store_true",
        help="PPO learner instead of random keys (default: random keys)",
    )
    args = parser.parse_args(argv)
    if args.learns:
        return train_slim.main(["--config", str(args.config)])
    config = load_config(args.config)
    os.environ[SLOT] = "0"  # the archive records the slot
    signals = StopSignal().install()
    prepare_imports()
    from Daddy.learning.make_vector import make_vector

    training, run = config.training, run_paths(config)
    make_env = WORKLOADS[training.workload].make_env(config)
    with closing(make_vector(make_env, training.num_envs, training.vector_backend)) as vector:
        player = RandomPlayer(config, vector, _events(config, run), run.slot(0).checkpoints)
        return _play(player, signals)


def _shorten_archive() -> None:
    """Shorten the archive's spans, which are set for the real game, for this shorter quest."""
    original = workloads.archive_rules
    workloads.archive_rules = lambda config: replace(original(config), patience=48, square=4)


def _events(config: Config, run: RunPaths) -> EventWriter:
    name, workload = config.run_name, config.training.workload
    return EventWriter(run.events, name, workload, "learner", PEER, SystemClock())


def _play(player: RandomPlayer, signals: StopSignal) -> int:
    config = player.config
    horizon = resolve_settings(config.training, "cpu").horizon
    player.start()
    saved = time.monotonic()
    while player.step < config.training.total_steps and signals.stop_reason() is None:
        player.play_rollout(horizon)
        if time.monotonic() - saved >= _SAVE_S:
            player.save()
            saved = time.monotonic()
    player.save()
    return int(ExitCode.DRAINED if signals.stop_reason() else ExitCode.DONE)


if __name__ == "__main__":
    _shorten_archive()
    raise SystemExit(run_entry(main))
