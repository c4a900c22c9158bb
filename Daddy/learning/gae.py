"""Pure: generalised advantage estimation (Schulman et al., 2016, equation 16)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def advantages(
    rewards: Floats,
    values: Floats,
    dones: NDArray[np.bool_],
    last_values: Floats,
    gamma: float,
    gae_lambda: float,
) -> tuple[Floats, Floats]:
    """Advantages and value targets of one rollout.

    rewards, values (T, N) float32; dones (T, N) bool, True where the step ended an episode;
    last_values (N,) float32, the critic's word on what follows step T-1. Returns two arrays
    (T, N) float32: the advantages, and advantages + values.
    """
    result = np.zeros_like(values)
    running = np.zeros_like(last_values)
    following = last_values
    for t in range(len(rewards) - 1, -1, -1):
        goes_on = 1.0 - dones[t].astype(np.float32)
        surprise = rewards[t] + gamma * following * goes_on - values[t]
        running = surprise + gamma * gae_lambda * goes_on * running
        result[t] = running
        following = values[t]
    return result, result + values


def explained_variance(values: Floats, targets: Floats) -> float:
    """1 − Var(targets − values) / Var(targets): 1 is a perfect critic, 0 a constant one."""
    spread = float(np.var(targets))
    return 1.0 - float(np.var(targets - values)) / spread if spread > 0.0 else 0.0
