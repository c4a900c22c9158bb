"""Runs of the bench `learning`: arms, configuration, folder, and the story that events tell.

A run's folder is named after a hash of its configuration, so that other settings, another game or
another start are another run, and one that was interrupted is found again.
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
"""The goal that is no milestone: the game's end."""
QUEST_STEPS = 6_144
"""Actions of an episode: some four times what the scripted player needs."""
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
"""Of every run. Spans are the real game's, shortened as the quest and the budget are (those of the
archive in `_learning_random`). What is paid often weighs more, and what is paid once less: the
peers' weights are for thousands of times as many steps, and under them the entropy of a policy
hardly falls in so few.
"""


@dataclass(frozen=True)
class Arm:
    """PPO or random keys, and the settings that make the difference.

    The final policy of a `judged` arm is judged: the first victory says little of that, so it
    learns on until its steps are used up.
    """

    name: str
    learns: bool = True
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    judged: bool = False


ARCHIVE = {"archive": {"mode": "swarm"}}
PPO, RANDOM = Arm("PPO"), Arm("random", learns=False)
PPO_ARCHIVE = Arm("PPO + archive", settings=ARCHIVE, judged=True)
RANDOM_ARCHIVE = Arm("random + archive", learns=False, settings=ARCHIVE)
ARMS = (PPO_ARCHIVE, PPO, RANDOM_ARCHIVE, RANDOM)


def lean_game(folder: Path) -> Path:
    """Our cartridge without its busy work, as a file of `folder`."""
    image, _ = build(LEAN)
    path = folder / f"{sha256_hex(image)[:12]}.gb"
    write_atomic(path, image)
    return path


@dataclass(frozen=True)
class Run:
    """One seed of one arm: `limit` steps on the game `rom`, in the bench's folder `root`."""

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
        """The configuration, but for the run's own folder."""
        own = {"seed": self.seed, "total_steps": self.limit, "rom": str(self.rom)}
        return _merged(SETTINGS, self.arm.settings, {"training": own | dict(self.training)})

    @cached_property
    def folder(self) -> Path:
        """The folder of this run, named after its settings."""
        words = self.arm.name.replace(" ", "-").replace("+", "with")
        key = {**self.settings, "learns": self.arm.learns}
        return self.root / f"{words}-{self.seed}-{sha256_hex(canonical_json(key))[:8]}"

    @property
    def paths(self) -> RunPaths:
        return RunPaths(self.folder / "run")

    @property
    def config(self) -> Path:
        return self.folder / "config.json"

    @property
    def done(self) -> Path:
        """Exists once the run has ended for good."""
        return self.folder / "done.json"

    @property
    def judged(self) -> Path:
        """What its final policy was judged to be worth, once it was."""
        return self.folder / "judged.json"

    def is_over(self, story: Story) -> bool:
        """True once the game is won; a run whose final policy is judged uses all its steps."""
        return WON in story.firsts and not self.arm.judged

    def write_config(self) -> None:
        """The file that its learner reads."""
        settings = {**self.settings, "run_dir": str(self.paths.root)}
        write_atomic(self.config, json.dumps(settings, indent=1).encode())

    def story(self) -> Story:
        """What its events tell by now."""
        story = Story(int(self.settings["training"]["episode_steps"]))
        story.hear(read_events(self.paths.events))
        return story

    def seconds(self) -> float:
        """Wall time from the first to the last event of each of its learners."""
        spans = []
        for path in self.paths.events.glob("*.jsonl"):
            stamps = [float(event["ts"]) for event in read_events(path.parent, path.name)]
            spans.append(max(stamps, default=0.0) - min(stamps, default=0.0))
        return round(sum(spans), 1)


@dataclass
class Story:
    """Milestones by the step at which they were first told, and how far the run is.

    A learner tells what it saw once per rollout: steps are multiples of ENVS x HORIZON.
    """

    episode_steps: int
    step: int = 0
    firsts: dict[str, int] = field(default_factory=dict)

    def hear(self, events: Iterable[Mapping[str, Any]]) -> None:
        """More of the run's events."""
        for event in events:
            step, data = int(event["step"]), event["data"]
            self.step = max(self.step, step)
            if event["event"] == "progress" and "milestone" in data:
                self._first(str(data["milestone"]), step)
            elif event["event"] == "result" and self._is_victory(data):
                self._first(WON, step)

    def _is_victory(self, data: Mapping[str, Any]) -> bool:
        """Nothing but a victory ends an episode before its length."""
        return any(length < self.episode_steps for length in data.get("lengths", ()))

    def _first(self, name: str, step: int) -> None:
        """After a kill a learner plays on from its checkpoint, and may be later this time."""
        self.firsts[name] = min(self.firsts.get(name, step), step)

    @property
    def milestones(self) -> int:
        """How many were reached."""
        return len(self.firsts.keys() - {WON})


def _merged(*layers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for layer in layers:
        for section, values in layer.items():
            merged[section] = {**merged.get(section, {}), **values}
    return merged
