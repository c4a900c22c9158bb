"""Builds learners for tests: real parts with a serial vector, a fake lease and a fake clock."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from Daddy.core.clock import SystemClock
from Daddy.core.hyperparameters import PpoSettings
from Daddy.learning.cartpole import CartPole
from Daddy.learning.interfaces import NoExchange, NoFrames
from Daddy.learning.learner_parts import LoopSchedule, Parts, TensorBoard
from Daddy.learning.policy import make_policy
from Daddy.learning.vector_serial import SerialVector
from Daddy.workloads import WORKLOADS


class FakeLease:
    """A lease that is held until a test sets `ours` to False."""

    def __init__(self, term: int = 1) -> None:
        self.term = term
        self.ours = True
        self.beats: list[dict[str, object]] = []

    def held(self) -> bool:
        return self.ours

    def beat(self, data: Mapping[str, object]) -> None:
        self.beats.append(dict(data))


class Notebook:
    """Keeps the events that were written."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int, dict[str, Any]]] = []

    def write(self, event: str, step: int, data: Mapping[str, object]) -> None:
        self.rows.append((event, step, dict(data)))

    def states(self, name: str) -> list[tuple[int, dict[str, Any]]]:
        return [(s, d) for e, s, d in self.rows if e == "state" and d["state"] == name]

    def returns(self) -> list[float]:
        found = [data["returns"] for event, _, data in self.rows if event == "result"]
        return [value for some in found for value in some]


class StopAfter:
    """Returns a stop reason from the call number `looks` + 1 on."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def stop_reason(self) -> str | None:
        self.left -= 1
        return "asked to" if self.left < 0 else None


class Never:
    def stop_reason(self) -> str | None:
        return None


SETTINGS = PpoSettings(
    num_envs=8,
    horizon=32,
    batch_size=64,
    update_epochs=4,
    learning_rate=1e-3,
    clip=0.2,
    entropy=0.01,
    value_coefficient=0.5,
    gamma=0.99,
    gae_lambda=0.95,
    max_grad_norm=0.5,
    bptt=16,
)
SCHEDULE = LoopSchedule(
    total_steps=0,
    checkpoint_interval=1_000_000,
    checkpoint_seconds=0.0,
    max_keep=3,
    sync_interval=1_000_000,
)


WORKLOAD_KEYS = ("reports", "milestones_reached", "assists_used", "assists_given_up")
CARTPOLE = replace(WORKLOADS["cartpole"], reports=lambda _: ())


def cartpole_parts(folder: Path, *, memory: int = 0, seed: int = 1, **changes: Any) -> Parts:
    """Return a CartPole learner's parts, checkpoints in `folder`; `changes` replace parts."""
    torch.set_num_threads(1)
    settings = changes.get("settings", SETTINGS)
    vector = changes.pop("vector", None) or SerialVector(CartPole, settings.num_envs)
    torch.manual_seed(seed)
    told = {name: changes.pop(name) for name in WORKLOAD_KEYS if name in changes}
    parts: dict[str, Any] = {
        "workload": replace(CARTPOLE, **told),
        "peer": "slot-0",
        "tensorboard": folder,
        "policy": make_policy(vector.observation_space, vector.action_space.n, 64, memory),
        "vector": vector,
        "settings": settings,
        "schedule": SCHEDULE,
        "device": torch.device("cpu"),
        "seed": seed,
        "checkpoints": folder,
        "lease": FakeLease(changes.pop("term", 1)),
        "exchange": NoExchange(),
        "frames": NoFrames(),
        "stopper": Never(),
        "events": Notebook(),
        "clock": SystemClock(),
        "board": TensorBoard(None, SystemClock()),
    }
    return Parts(**{**parts, **changes})
