"""Defines CartPole as a second workload, learnt within a minute: for tests and benchmarks.

The game is Gymnasium's CartPole-v1 with a dictionary observation, telemetry, a picture and states.
"""

import json
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from numpy.typing import NDArray

from Daddy.core.shared_types import SCREEN_HEIGHT, SCREEN_WIDTH

LIMIT = 500
"""Steps after which an episode is truncated, as in CartPole-v1."""
SCALE = np.array([2.4, 3.0, 0.21, 3.0], np.float32)
"""Divisors of observations, which become about 1: failure limits, and usual speeds."""
_TIP, _CART, _WIDE = slice(20, 50), slice(100, 120), 8
"""In a picture: rows of the pole's tip, rows of the cart, and the width of both in pixels."""


class CartPole(gymnasium.Env[dict[str, NDArray[np.float32]], np.int64]):
    """Simulates a cart with a pole: observation {"state": (4,) float32}, 2 actions, reward 1.

    Without `velocities` the observation is (2,), position and angle, and a policy needs memory.
    """

    telemetry_names = ("episode_return", "episode", "step")

    def __init__(self, episode_steps: int = LIMIT, *, velocities: bool = True) -> None:
        self._game: Any = CartPoleEnv()
        self._limit = min(LIMIT, episode_steps)
        self._columns = slice(None) if velocities else slice(None, None, 2)
        limit = np.full(4, np.inf, np.float32)[self._columns]
        self.observation_space = spaces.Dict({"state": spaces.Box(-limit, limit)})
        self.action_space = spaces.Discrete(2)
        self._steps = 0
        self._episode = -1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[np.float32]], dict[str, Any]]:
        self._game.reset(seed=seed, options=options)
        self._steps, self._episode = 0, self._episode + 1
        return self._observe(), {}

    def step(
        self, action: np.int64 | int
    ) -> tuple[dict[str, NDArray[np.float32]], float, bool, bool, dict[str, Any]]:
        _, _, fell, _, _ = self._game.step(action)
        self._steps += 1
        return self._observe(), 1.0, bool(fell), not fell and self._steps >= self._limit, {}

    def _observe(self) -> dict[str, NDArray[np.float32]]:
        return {"state": (np.asarray(self._game.state, np.float32) / SCALE)[self._columns]}

    def telemetry(self) -> tuple[float, ...]:
        return float(self._steps), float(self._episode), float(self._steps)

    def picture(self) -> bytes:
        """Return a picture of pole tip and cart at 2 bits a pixel: `SCREEN_BYTES` bytes."""
        position, _, angle, _ = (float(value) for value in np.asarray(self._game.state))
        shades = np.zeros((SCREEN_HEIGHT, SCREEN_WIDTH), np.uint8)
        for rows, metres in ((_TIP, position + 2 * np.sin(angle)), (_CART, position)):
            left = int(np.clip((metres / 4.8 + 0.5) * SCREEN_WIDTH, 0, SCREEN_WIDTH - _WIDE))
            shades[rows, left : left + _WIDE] = 3
        four = shades.reshape(-1, 4)
        return bytes((four[:, 0] << 6) | (four[:, 1] << 4) | (four[:, 2] << 2) | four[:, 3])

    def save_state(self) -> bytes:
        state = [float(value) for value in np.asarray(self._game.state)]
        record = {
            "state": state,
            "steps": self._steps,
            "episode": self._episode,
            "beyond": self._game.steps_beyond_terminated,
            "generator": self._game.np_random.bit_generator.state,
        }
        return json.dumps(record).encode()

    def load_state(self, data: bytes) -> dict[str, NDArray[np.float32]]:
        record = json.loads(data)
        self._game.reset(seed=0)
        self._game.np_random.bit_generator.state = record["generator"]
        self._game.state = tuple(record["state"])
        self._game.steps_beyond_terminated = record["beyond"]
        self._steps, self._episode = record["steps"], record["episode"]
        return self._observe()
