"""Pure. Computes generalised advantage estimates (Schulman et al., 2016, equation 16)."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def advantages_and_returns(
    rewards: Floats,
    values: Floats,
    dones: NDArray[np.bool_],
    last_values: Floats,
    gamma: float,
    gae_lambda: float,
) -> tuple[Floats, Floats]:
    """Compute a rollout's advantages and its returns (advantages + values, the critic's targets).

    rewards, values (T, N) float32; dones (T, N) bool, True where the step ended an episode;
    last_values (N,) float32, the critic's values of the observations after step T-1. Both results
    are (T, N) float32.
    """
    advantages = np.zeros_like(values)
    last_advantages = np.zeros_like(last_values)
    next_values = last_values
    for t in range(len(rewards) - 1, -1, -1):
        not_done = 1.0 - dones[t].astype(np.float32)
        delta = rewards[t] + gamma * next_values * not_done - values[t]
        last_advantages = delta + gamma * gae_lambda * not_done * last_advantages
        advantages[t] = last_advantages
        next_values = values[t]
    return advantages, advantages + values


def explained_variance(values: Floats, returns: Floats) -> float:
    """Compute 1 − Var(returns − values) / Var(returns): 1 is a perfect critic, 0 a constant."""
    variance = float(np.var(returns))
    return 1.0 - float(np.var(returns - values)) / variance if variance > 0.0 else 0.0
