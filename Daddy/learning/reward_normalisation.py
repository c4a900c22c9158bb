"""Pure: the running deviation of discounted returns, which rewards are divided by.

Keeps the critic's targets near one whatever a workload pays, so one learning rate fits all.
Engstrom et al. (2020), "Implementation matters", name this among what makes PPO work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_EPSILON = 1e-8


class RewardNormaliser:
    """Divides rewards by the deviation of the discounted return seen so far, clipped to ±limit.

    Not `wanted`, it hands rewards on as they are and only watches: its gauge goes on.
    """

    def __init__(
        self, num_envs: int, gamma: float, limit: float = 10.0, *, wanted: bool = True
    ) -> None:
        self._wanted = wanted
        self._gamma = gamma
        self._limit = limit
        self._returns = np.zeros(num_envs, np.float64)
        self._count = 0.0
        self._mean = 0.0
        self._m2 = 0.0

    @property
    def deviation(self) -> float:
        """What rewards are divided by now; 1 until two samples were seen."""
        return float(np.sqrt(self._m2 / self._count + _EPSILON)) if self._count > 1.0 else 1.0

    def __call__(
        self, rewards: NDArray[np.float32], dones: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        """Rewards (N,) of one step, and whether it ended an episode (N,) → (N,) float32."""
        self._returns = self._returns * self._gamma + rewards
        self._absorb(self._returns)
        self._returns[dones] = 0.0
        if not self._wanted:
            return rewards.astype(np.float32)
        scaled = rewards / self.deviation
        return np.clip(scaled, -self._limit, self._limit).astype(np.float32)

    def _absorb(self, batch: NDArray[np.float64]) -> None:
        """Chan et al.'s parallel update of count, mean and sum of squared differences."""
        size, mean = float(len(batch)), float(np.mean(batch))
        total, shift = self._count + size, mean - self._mean
        self._m2 += float(np.sum((batch - mean) ** 2)) + shift**2 * self._count * size / total
        self._mean += shift * size / total
        self._count = total

    def state(self) -> dict[str, Any]:
        """Everything needed to go on, as JSON (floats survive it bit for bit)."""
        moments = {"count": self._count, "mean": self._mean, "m2": self._m2}
        return {**moments, "returns": self._returns.tolist()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from `state()`; another number of environments starts its returns at zero."""
        self._count = float(state["count"])
        self._mean = float(state["mean"])
        self._m2 = float(state["m2"])
        if len(state["returns"]) == len(self._returns):
            self._returns = np.asarray(state["returns"], np.float64)
