"""Tiny environments for tests of the vector: slow, failing, and jumping ones."""

import multiprocessing
import os
import sys
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

from Daddy.core.errors import ConfigError
from tests.patience import PATIENCE_S


class Slow(gymnasium.Env[Any, Any]):
    """Sleeps in every step."""

    telemetry_names = ("steps",)

    def __init__(self, seconds: float = 0.0) -> None:
        self.observation_space = Dict({"x": Box(-1, 1, (3,), np.float32)})
        self.action_space = Discrete(2)
        self._seconds, self._steps = seconds, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._steps = 0
        return {"x": np.zeros(3, np.float32)}, {}

    def step(self, action: Any) -> Any:
        time.sleep(self._seconds)
        self._steps += 1
        return {"x": np.full(3, action, np.float32)}, 1.0, False, self._steps >= 1_000_000, {}

    def telemetry(self) -> tuple[float, ...]:
        return (float(self._steps),)


class SlowToSave(Slow):
    """Says that it saves its state, and goes on with that for ten minutes."""

    def save_state(self) -> bytes:
        os.write(1, b"saving\n")
        time.sleep(600)
        return b""


class Failing(Slow):
    """Raises an error on action 1."""

    def step(self, action: Any) -> Any:
        if action == 1:
            raise ValueError("the cable is out")
        return super().step(action)


class Misconfigured(Slow):
    """Refuses action 1 for a setting's sake."""

    def step(self, action: Any) -> Any:
        if action == 1:
            raise ConfigError("the reward part cell is nan", "set reward.cell")
        return super().step(action)


class Quitting(Slow):
    """Calls sys.exit on action 1."""

    def step(self, action: Any) -> Any:
        if action == 1:
            sys.exit("the player went home")
        return super().step(action)


class Unsendable(Slow):
    """Ends its episode on action 1, with an info that cannot be pickled."""

    def step(self, action: Any) -> Any:
        observation, reward, _, truncated, _ = super().step(action)
        return observation, reward, action == 1, truncated, {"why": lambda: None}


class Parental(Slow):
    """Forks a process that outlives every test."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if os.fork() == 0:
            time.sleep(PATIENCE_S)
            os._exit(0)
        return super().reset(seed=seed, options=options)


class Chattering(Slow):
    """Ends an episode in every step, with an info larger than a pipe holds."""

    def step(self, action: Any) -> Any:
        observation, reward, *_ = super().step(action)
        return observation, reward, True, False, {"text": "x" * 1_000_000}


class Unmakeable(Slow):
    """Raises an error when it is made in an env process."""

    def __init__(self) -> None:
        super().__init__()
        if multiprocessing.parent_process() is not None:
            raise ValueError("there is no console here")


class Dozing(Slow):
    """Sleeps for half a second on action 1."""

    def step(self, action: Any) -> Any:
        time.sleep(0.5 * float(action))
        return super().step(action)


class Jumping(Slow):
    """Reports a jump to another state on action 1."""

    def step(self, action: Any) -> Any:
        *told, _ = super().step(action)
        return *told, {"jumped": True} if action == 1 else {}
