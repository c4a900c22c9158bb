"""Judges policies of CartPole: many games at once, from starts that never change.

Several policies play together, each from the same starts and with the same dice, drawing their
actions as learners do: what differs between two of them is the policies alone. The arithmetic is
that of Gymnasium's CartPole and of the policy's own layers (a test compares both).
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from numpy.typing import NDArray

from Daddy.learning.cartpole import LIMIT, SCALE
from Daddy.weights.encoding.state_arithmetic import StateDict

GAMES = 32
_PROBE_SEED = 20_000_000
"""No learner plays from it."""
_LAYERS = ("encoder.layers.0", "encoder.layers.2", "actor")

Floats = NDArray[np.float64]


@lru_cache(maxsize=1)
def _world() -> Any:
    """Return Gymnasium's constants."""
    return CartPoleEnv()


@lru_cache(maxsize=1)
def probe() -> tuple[Floats, Floats]:
    """Return fixed starts (GAMES, 4) as Gymnasium draws them, and random numbers (LIMIT, GAMES)."""
    numbers = np.random.default_rng(_PROBE_SEED)
    return numbers.uniform(-0.05, 0.05, (GAMES, 4)), numbers.random((LIMIT, GAMES))


def advance(states: Floats, rights: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.bool_]]:
    """Advance games (..., 4) by one step, right where `rights` (...); return states and falls."""
    world = _world()
    x, speed, angle, spin = np.moveaxis(states, -1, 0)
    force = np.where(rights, world.force_mag, -world.force_mag)
    cosine, sine = np.cos(angle), np.sin(angle)
    push = (force + world.polemass_length * spin**2 * sine) / world.total_mass
    inertia = world.length * (4.0 / 3.0 - world.masspole * cosine**2 / world.total_mass)
    twist = (world.gravity * sine - cosine * push) / inertia
    pull = push - world.polemass_length * twist * cosine / world.total_mass
    tau = world.tau
    moved = np.stack(
        (x + tau * speed, speed + tau * pull, angle + tau * spin, spin + tau * twist), -1
    )
    fell = np.abs(moved[..., 0]) > world.x_threshold
    return moved, fell | (np.abs(moved[..., 2]) > world.theta_threshold_radians)


class PolicyStack:
    """Several policies stacked: their layers as (K, in, out) and (K, 1, out)."""

    def __init__(self, states: Sequence[StateDict]) -> None:
        self._layers = [
            (
                torch.stack([state[f"{name}.weight"].T for state in states]),
                torch.stack([entry[f"{name}.bias"] for entry in states]).unsqueeze(1),
            )
            for name in _LAYERS
        ]

    @torch.inference_mode()
    def chances(self, games: Floats) -> Floats:
        """Return each policy's probability of a push right in each of its games (K, B, 4)."""
        features = torch.from_numpy(games.astype(np.float32) / SCALE)
        for weight, bias in self._layers[:-1]:
            features = torch.baddbmm(bias, features, weight).tanh_()
        weight, bias = self._layers[-1]
        logits = torch.baddbmm(bias, features, weight)
        chances: Floats = torch.sigmoid(logits[..., 1] - logits[..., 0]).numpy()
        return chances


def judge(states: Sequence[StateDict]) -> list[float]:
    """Return the mean return of each policy over the probe set, 0 to 500."""
    first, dice = probe()
    crowd, games = PolicyStack(states), np.stack([first] * len(states))
    up = np.ones(games.shape[:2], bool)
    returns = np.zeros(games.shape[:2])
    for thrown in dice:
        returns += up
        games, fell = advance(games, thrown < crowd.chances(games))
        up &= ~fell
        if not up.any():
            break
        games[~up] = 0.0
    means: list[float] = returns.mean(axis=1).tolist()
    return means
