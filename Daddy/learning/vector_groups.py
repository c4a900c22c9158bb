"""Groups of environments: how many there are, and a step of all made of the steps of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from Daddy.learning.ports import Transition

if TYPE_CHECKING:
    from Daddy.learning.ports import VectorEnv


def split(num_envs: int, wanted: int) -> tuple[slice, ...]:
    """`num_envs` environments in up to `wanted` groups of equal size, as many as divide them."""
    groups = next(n for n in range(min(wanted, num_envs), 0, -1) if num_envs % n == 0)
    size = num_envs // groups
    return tuple(slice(first, first + size) for first in range(0, num_envs, size))


def step_all(vector: VectorEnv, actions: NDArray[np.integer[Any]]) -> Transition:
    """Step every group once; actions (N,), the transition of all environments in their order."""
    for group, members in enumerate(vector.groups):
        vector.send(group, actions[members])
    found = dict(vector.recv() for _ in vector.groups)
    return join([found[group] for group in range(len(found))])


def join(parts: list[Transition]) -> Transition:
    """The groups' transitions, in order, as one."""
    if len(parts) == 1:
        return parts[0]
    keys = parts[0].observations
    return Transition(
        {key: np.concatenate([part.observations[key] for part in parts]) for key in keys},
        np.concatenate([part.rewards for part in parts]),
        np.concatenate([part.terminated for part in parts]),
        np.concatenate([part.truncated for part in parts]),
        [episode for part in parts for episode in part.episodes],
    )
