"""Pure. Divides rewards by the running standard deviation of discounted returns.

The critic's targets stay near 1 for any scale of rewards, so that one learning rate fits all
workloads (Engstrom et al., 2020, "Implementation matters").
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_EPSILON = 1e-8


class RewardNormaliser:
    """Divides rewards by the standard deviation of past discounted returns, clipped to ±limit.

    Unless `enabled`, rewards stay unchanged; `deviation` is measured in any case.
    """

    def __init__(
        self, num_envs: int, gamma: float, limit: float = 10.0, *, enabled: bool = True
    ) -> None:
        self._enabled = enabled
        self._gamma = gamma
        self._limit = limit
        self._returns = np.zeros(num_envs, np.float64)
        self._count = 0.0
        self._mean = 0.0
        self._m2 = 0.0

    @property
    def deviation(self) -> float:
        """The present divisor of rewards: 1 before the second sample."""
        return float(np.sqrt(self._m2 / self._count + _EPSILON)) if self._count > 1.0 else 1.0

    def __call__(
        self, rewards: NDArray[np.float32], dones: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        """Return one step's rewards (N,) normalised, float32; dones (N,) mark ended episodes.

        ValueError for a reward that is not finite; the statistics stay as they were.
        """
        if not np.isfinite(rewards).all():
            paid = {int(env): float(rewards[env]) for env in np.flatnonzero(~np.isfinite(rewards))}
            raise ValueError(f"rewards that are not finite, by environment: {paid}")
        self._returns = self._returns * self._gamma + rewards
        self._add_samples(self._returns)
        self._returns[dones] = 0.0
        if not self._enabled:
            return rewards.astype(np.float32)
        scaled = rewards / self.deviation
        return np.clip(scaled, -self._limit, self._limit).astype(np.float32)

    def _add_samples(self, batch: NDArray[np.float64]) -> None:
        """Update count, mean and sum of squared differences by Chan et al.'s parallel algorithm."""
        size, mean = float(len(batch)), float(np.mean(batch))
        total, shift = self._count + size, mean - self._mean
        self._m2 += float(np.sum((batch - mean) ** 2)) + shift**2 * self._count * size / total
        self._mean += shift * size / total
        self._count = total

    def state_dict(self) -> dict[str, Any]:
        """Return the statistics and discounted returns as a JSON object, with exact floats."""
        moments = {"count": self._count, "mean": self._mean, "m2": self._m2}
        return {**moments, "returns": self._returns.tolist()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `state_dict`'s result; zero the discounted returns if `num_envs` has changed."""
        self._count = float(state["count"])
        self._mean = float(state["mean"])
        self._m2 = float(state["m2"])
        if len(state["returns"]) == len(self._returns):
            self._returns = np.asarray(state["returns"], np.float64)
