"""Our learner on CartPole-v1: its real loop, from a configuration, until the pole stays up."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from Daddy.core.clock import SystemClock
from Daddy.core.settings import Config
from Daddy.learning.cartpole import CartPole
from scripts.benches._curves import Curve

if TYPE_CHECKING:
    from Daddy.learning.parts import Parts
    from Daddy.learning.policy import ActorCritic

WINDOW = 100
"""Episodes whose mean return counts."""
JUDGES = 20
FEATURES, MEMORY = 64, 64
TRAINING = {
    "workload": "cartpole",
    "device": "cpu",
    "profile": "cpu",
    "num_envs": 16,
    "batch_size": 256,
    "horizon": 64,
    "learning_rate": 1e-3,
    "torch_threads": 1,
    "vector_backend": "serial",
    "tensorboard": False,
    "checkpoint_interval": 1_000_000_000,
}


class AlwaysHeld:
    """A place that nobody else wants."""

    term = 1

    def held(self) -> bool:
        return True

    def beat(self, data: Mapping[str, object]) -> None:
        """Nobody asks."""


@dataclass
class Ear:
    """Hears how episodes end, and asks the learner to stop once the last hundred are good."""

    goal: float
    began: float = field(default_factory=time.perf_counter)
    steps: list[int] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    solved_at: int | None = None
    wall_s: float = 0.0

    def write(self, event: str, step: int, data: Mapping[str, object]) -> None:
        """One event of the loop; only finished episodes matter."""
        found = data.get("returns")
        if event == "result" and isinstance(found, list):
            self.hear(step, found)

    def hear(self, step: int, returns: list[float]) -> None:
        """Episodes that ended by `step`."""
        self.returns += returns
        self.steps += [step] * len(returns)
        good = len(self.returns) >= WINDOW and np.mean(self.returns[-WINDOW:]) >= self.goal
        if good and self.solved_at is None:
            self.solved_at = step
            self.wall_s = time.perf_counter() - self.began

    def stop_reason(self) -> str | None:
        """Why to stop."""
        return "solved" if self.solved_at is not None else None


def learn(seed: int, goal: float, limit: int, *, memory: bool, velocities: bool) -> Curve:
    """One run of at most `limit` steps, and a hundred fresh episodes of what it learnt."""
    from Daddy.learning.loop import train

    ear = Ear(goal)
    with tempfile.TemporaryDirectory(prefix="daddy-cartpole-") as folder:
        parts = _parts(Path(folder), ear, seed, limit, memory=memory, velocities=velocities)
        ear.began = time.perf_counter()
        outcome = train(parts)
        wall_s = ear.wall_s or time.perf_counter() - ear.began
        judged = judge(parts.policy, seed, velocities=velocities)
    return Curve(
        seed, ear.steps, ear.returns, ear.solved_at, outcome.step, round(wall_s, 1), judged
    )


def _parts(
    folder: Path, ear: Ear, seed: int, limit: int, *, memory: bool, velocities: bool
) -> Parts:
    from Daddy.learning.assemble import Surroundings, Task, assemble
    from Daddy.learning.policy import make_policy
    from Daddy.learning.solo import NoExchange, NoFrames

    config = Config.model_validate({"training": {**TRAINING, "seed": seed, "total_steps": limit}})
    task = Task(
        "cartpole",
        partial(CartPole, velocities=velocities),
        lambda space, actions: make_policy(
            space, int(actions.n), FEATURES, MEMORY if memory else 0
        ),
        lambda _: [],
    )
    around = Surroundings(
        peer="bench",
        checkpoints=folder,
        tensorboard=folder,
        place=AlwaysHeld(),
        exchange=NoExchange(),
        frames=NoFrames(),
        stopper=ear,
        events=ear,
        clock=SystemClock(),
    )
    return assemble(config, task, around)


def judge(policy: ActorCritic, seed: int, *, velocities: bool) -> float:
    """Mean return of a hundred fresh episodes, five in each of twenty games, likeliest actions."""
    import torch

    from Daddy.learning.vector import make_vector

    vector = make_vector(partial(CartPole, velocities=velocities), JUDGES, "serial")
    seen = vector.reset([10_000 + JUDGES * seed + game for game in range(JUDGES)])
    state, starts = policy.initial_state(JUDGES), np.ones(JUDGES, bool)
    returns: dict[int, list[float]] = {game: [] for game in range(JUDGES)}
    with torch.inference_mode():
        while min(len(ended) for ended in returns.values()) < WINDOW // JUDGES:
            shown = {key: torch.from_numpy(value) for key, value in seen.items()}
            logits, _, state = policy.step(shown, state, torch.from_numpy(starts))
            transition = vector.step(logits.argmax(-1).numpy())
            seen, starts = transition.observations, transition.terminated | transition.truncated
            for end in transition.episodes:
                returns[end.env].append(end.episode_return)
    vector.close()
    first = [value for ended in returns.values() for value in ended[: WINDOW // JUDGES]]
    return round(float(np.mean(first)), 1)
