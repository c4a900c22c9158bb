"""What the learners of the bench `sharing` play: CartPole, or the grid world of keys and doors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gymnasium.spaces import Dict as DictSpace

from Daddy.learning.cartpole import CartPole
from Daddy.learning.ports import VectorEnv
from Daddy.learning.vector import make_vector
from Daddy.weights.polyak import StateDict
from scripts.benches import _sharing_judge as judging
from scripts.benches import _sharing_keydoor as keydoor


@dataclass(frozen=True, eq=False)
class World:
    """A task by name: what is seen, how many actions there are, its games, and their judge.

    `rounds` is how long a run lasts, frozen: chosen on seeds of its own.
    """

    name: str
    space: DictSpace
    actions: int
    games: Callable[[int], VectorEnv]
    judge: Callable[[Sequence[StateDict]], list[float]]
    rounds: int


def _poles(number: int) -> VectorEnv:
    return make_vector(CartPole, number, "serial", 1, 1)


POLE = World("cartpole", CartPole().observation_space, 2, _poles, judging.judge, 28)  # type: ignore[arg-type]
DOORS = World(
    "keydoor", keydoor.SPACE, len(keydoor.MOVES), keydoor.KeyDoors, judging.judge_doors, 32
)
