"""Runs of the bench `learning`: their arms, configuration, folder, and progress from events.

A run's folder is named after a hash of its configuration. So other settings or another game give
another run, and an interrupted run is found again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import canonical_json, sha256_hex, write_atomic
from Daddy.core.event_log import read_events
from Daddy.core.run_paths import RunPaths
from scripts.cartridge.build import LEAN, build

WON = "won"
"""Name of the goal, the game's end, which is not one of the milestones."""
QUEST_STEPS = 6_144
"""Actions of an episode, about four times those of the scripted player."""
ENVS, HORIZON = 16, 64
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "training": {
        "workload": "pokemon_red",
        "device": "cpu",
        "profile": "cpu",
        "num_envs": ENVS,
        "horizon": HORIZON,
        "batch_size": 256,
        "entropy": 0.03,
        "episode_steps": QUEST_STEPS,
        "vector_backend": "serial",
        "stream": False,
        "checkpoint_interval": 1,
        "max_runtime_seconds": 86_400,
    },
    "slurm": {"max_running": 1, "time_limit": "48:00:00"},
    "collaboration": {"enabled": False},
    "reward": {"memory_steps": 4_096, "cell": 0.1, "open_goal": 3.0, "event": 0.5, "required": 3.0},
    "archive": {"mode": "off"},
}
"""Settings of every run, scaled down from the real game to this quest and its budget (the archive's
in `_learning_random`). Frequent rewards weigh more and single ones less than for the real game,
whose runs have thousands of times as many steps: with its weights a policy's entropy hardly falls.
"""


@dataclass(frozen=True)
class Arm:
    """An arm of the comparison: PPO or random keys, and its settings.

    The final policy of an `evaluated` arm is evaluated. Such an arm uses all its steps, because a
    first victory says little about the policy.
    """

    name: str
    learns: bool = True
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    evaluated: bool = False


ARCHIVE = {"archive": {"mode": "swarm"}}
PPO, RANDOM = Arm("PPO"), Arm("random", learns=False)
PPO_ARCHIVE = Arm("PPO + archive", settings=ARCHIVE, evaluated=True)
RANDOM_ARCHIVE = Arm("random + archive", learns=False, settings=ARCHIVE)
ARMS = (PPO_ARCHIVE, PPO, RANDOM_ARCHIVE, RANDOM)


def lean_game(folder: Path) -> Path:
    """Write our cartridge without its busy work to `folder`; return the file."""
    image, _ = build(LEAN)
    path = folder / f"{sha256_hex(image)[:12]}.gb"
    write_atomic(path, image)
    return path


@dataclass(frozen=True)
class Run:
    """One seed of one arm: `limit` steps of the game `rom`, in the bench's folder `root`."""

    root: Path
    rom: Path
    arm: Arm
    seed: int
    limit: int
    training: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Arm and seed, for messages."""
        return f"{self.arm.name}, seed {self.seed}"

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The configuration, without the run's folder."""
        own = {"seed": self.seed, "total_steps": self.limit, "rom": str(self.rom)}
        return _merged(SETTINGS, self.arm.settings, {"training": own | dict(self.training)})

    @cached_property
    def folder(self) -> Path:
        """The folder of this run, named after its settings."""
        slug = self.arm.name.replace(" ", "-").replace("+", "with")
        key = {**self.settings, "learns": self.arm.learns}
        return self.root / f"{slug}-{self.seed}-{sha256_hex(canonical_json(key))[:8]}"

    @property
    def paths(self) -> RunPaths:
        return RunPaths(self.folder / "run")

    @property
    def config(self) -> Path:
        return self.folder / "config.json"

    @property
    def done(self) -> Path:
        """File that exists once the run has finished."""
        return self.folder / "done.json"

    @property
    def evaluation(self) -> Path:
        """File of the final policy's evaluation, once there is one."""
        return self.folder / "judged.json"

    def is_over(self, progress: RunProgress) -> bool:
        """Return True once the game is won, except for runs whose final policy is evaluated."""
        return WON in progress.firsts and not self.arm.evaluated

    def write_config(self) -> None:
        """Write the configuration file of the run's learner."""
        settings = {**self.settings, "run_dir": str(self.paths.root)}
        write_atomic(self.config, json.dumps(settings, indent=1).encode())

    def read_progress(self) -> RunProgress:
        """Read the progress so far from the run's events."""
        progress = RunProgress(int(self.settings["training"]["episode_steps"]))
        progress.add_events(read_events(self.paths.events))
        return progress

    def seconds(self) -> float:
        """Return the wall seconds between first and last event, summed over the run's learners."""
        spans = []
        for path in self.paths.events.glob("*.jsonl"):
            stamps = [float(event["ts"]) for event in read_events(path.parent, path.name)]
            spans.append(max(stamps, default=0.0) - min(stamps, default=0.0))
        return round(sum(spans), 1)


@dataclass
class RunProgress:
    """The steps of a run, and the step at which each milestone was first reported.

    A learner reports once per rollout, so steps are multiples of ENVS x HORIZON.
    """

    episode_steps: int
    step: int = 0
    firsts: dict[str, int] = field(default_factory=dict)

    def add_events(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Add events of the run."""
        for event in events:
            step, data = int(event["step"]), event["data"]
            self.step = max(self.step, step)
            if event["event"] == "progress" and "milestone" in data:
                self._first(str(data["milestone"]), step)
            elif event["event"] == "result" and self._is_victory(data):
                self._first(WON, step)

    def _is_victory(self, data: Mapping[str, Any]) -> bool:
        """Return True if an episode ended early, which only a victory causes."""
        return any(length < self.episode_steps for length in data.get("lengths", ()))

    def _first(self, name: str, step: int) -> None:
        """Keep the earliest step: a learner that was killed repeats steps from its checkpoint."""
        self.firsts[name] = min(self.firsts.get(name, step), step)

    @property
    def milestones(self) -> int:
        """Number of milestones reached."""
        return len(self.firsts.keys() - {WON})


def _merged(*layers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for layer in layers:
        for section, values in layer.items():
            merged[section] = {**merged.get(section, {}), **values}
    return merged
