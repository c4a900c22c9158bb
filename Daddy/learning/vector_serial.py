"""Runs N environments in this thread, one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from Daddy.learning.interfaces import Transition
from Daddy.learning.vector_rows import EnvFactory, EnvRow, Rows, VectorEnv, row_layout

if TYPE_CHECKING:
    from Daddy.learning.interfaces import Observations


class SerialVector(VectorEnv):
    """Steps N environments in this thread; `send` only stores the actions."""

    def __init__(self, env_fn: EnvFactory, num_envs: int, groups: int = 1) -> None:
        """Make `num_envs` environments."""
        envs = [env_fn() for _ in range(num_envs)]
        super().__init__(row_layout(envs[0]), num_envs, groups)
        self._rows = Rows(self._layout, np.zeros((num_envs, self._layout.size), np.uint8))
        self._envs = [EnvRow(env, self._rows, i, i) for i, env in enumerate(envs)]
        self._requested: frozenset[int] = frozenset()
        self._pictured: frozenset[int] = frozenset()
        self._sent: deque[tuple[int, list[Any], frozenset[int]]] = deque()
        """Groups with a step to take, their actions, and the environments to draw."""

    def reset(self, seeds: Sequence[int]) -> Observations:
        for env, seed in zip(self._envs, seeds, strict=True):
            env.reset(int(seed))
        return self._observations()

    def send(self, group: int, actions: NDArray[np.integer[Any]]) -> None:
        self._sent.append((group, actions.tolist(), self._requested))

    def recv(self) -> tuple[int, Transition]:
        """Take the step that was sent first; raise the error of an environment."""
        group, actions, requested = self._sent.popleft()
        members = self.groups[group]
        numbers = range(members.start, members.stop)
        results = [
            self._envs[i].step(action, i in requested)
            for i, action in zip(numbers, actions, strict=True)
        ]
        self._pictured = self._pictured - set(numbers) | requested & set(numbers)
        return group, Transition(
            {key: column[members] for key, column in self._rows.observations.items()},
            np.array([result.reward for result in results], np.float32),
            np.array([result.terminated for result in results], np.bool_),
            np.array([result.truncated for result in results], np.bool_),
            [result.episode for result in results if result.episode is not None],
        )

    def telemetry(self) -> NDArray[np.float32]:
        return self._rows.telemetry.copy()

    def request_pictures(self, agents: frozenset[int]) -> None:
        self._requested = frozenset(agents) & frozenset(range(self.num_envs))

    def pictures(self) -> dict[int, bytes]:
        return {i: self._rows.pictures[i].tobytes() for i in sorted(self._pictured)}

    def save_states(self) -> list[bytes]:
        return [env.save() for env in self._envs]

    def load_states(self, states: list[bytes]) -> Observations:
        for env, state in zip(self._envs, states, strict=True):
            env.restore(state)
        return self._observations()

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def _observations(self) -> Observations:
        return {key: column.copy() for key, column in self._rows.observations.items()}
