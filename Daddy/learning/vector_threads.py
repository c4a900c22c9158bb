"""N environments in this process: one after the other, or on a few threads.

Threads pay where the environment's work leaves the interpreter's lock alone, as the emulator does.
Both promise the same trajectories: an environment is only ever stepped by one thread at a time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from gymnasium.spaces import Dict as DictSpace
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from Daddy.learning.ports import Transition
from Daddy.learning.vector_rows import EnvFactory, EnvRow, Rows, layout_of

if TYPE_CHECKING:
    from Daddy.learning.ports import Observations

T = TypeVar("T")
_Job = tuple[Callable[[int], Any], int]
_Result = tuple[int, Any, BaseException | None]

_SWITCH_INTERVAL_S = 0.0002
"""Python's 5 ms are fifteen steps of an emulator: what waits for the interpreter waits that long
behind a save state being loaded."""


class SerialVector:
    """N environments stepped in turn. Implements `ports.VectorEnv`."""

    def __init__(self, env_fn: EnvFactory, num_envs: int) -> None:
        """Make `num_envs` environments."""
        envs = [env_fn() for _ in range(num_envs)]
        self._layout = layout_of(envs[0])
        self._rows = Rows(self._layout, np.zeros((num_envs, self._layout.size), np.uint8))
        self._envs = [EnvRow(env, self._rows, i, i) for i, env in enumerate(envs)]
        self._watched: frozenset[int] = frozenset()
        self._pictured: frozenset[int] = frozenset()

    @property
    def num_envs(self) -> int:
        """How many environments there are."""
        return len(self._envs)

    @property
    def observation_space(self) -> DictSpace:
        """Of a single environment."""
        return self._layout.observation_space

    @property
    def action_space(self) -> Discrete:
        """Of a single environment."""
        return self._layout.action_space

    @property
    def telemetry_names(self) -> tuple[str, ...]:
        """Names of the columns of `telemetry`."""
        return self._layout.telemetry_names

    def reset(self, seeds: Sequence[int]) -> Observations:
        """Begin afresh, environment i with seeds[i]."""
        self._each(lambda i: self._envs[i].reset(int(seeds[i])))
        return self._observations()

    def step(self, actions: NDArray[np.integer[Any]]) -> Transition:
        """Step every environment; see `ports.Transition`."""
        watched, chosen = self._watched, actions.tolist()
        outcomes = self._each(lambda i: self._envs[i].step(chosen[i], i in watched))
        self._pictured = watched
        return Transition(
            self._observations(),
            np.array([outcome.reward for outcome in outcomes], np.float32),
            np.array([outcome.terminated for outcome in outcomes], np.bool_),
            np.array([outcome.truncated for outcome in outcomes], np.bool_),
            [outcome.episode for outcome in outcomes if outcome.episode is not None],
        )

    def telemetry(self) -> NDArray[np.float32]:
        """(N, len(telemetry_names)) float32."""
        return self._rows.telemetry.copy()

    def watch(self, agents: frozenset[int]) -> None:
        """Draw pictures of these environments from the next step on."""
        self._watched = frozenset(agents) & frozenset(range(self.num_envs))

    def frames(self) -> dict[int, bytes]:
        """The newest picture of each watched environment."""
        return {i: self._rows.pictures[i].tobytes() for i in sorted(self._pictured)}

    def save_states(self) -> list[bytes]:
        """One state per environment."""
        return self._each(lambda i: self._envs[i].save())

    def load_states(self, states: list[bytes]) -> Observations:
        """Go on exactly from `save_states`."""
        self._each(lambda i: self._envs[i].load(states[i]))
        return self._observations()

    def close(self) -> None:
        """End all environments."""
        for env in self._envs:
            env.close()

    def _each(self, call: Callable[[int], T]) -> list[T]:
        """`call` for every environment; results in order."""
        return [call(i) for i in range(self.num_envs)]

    def _observations(self) -> Observations:
        return {key: column.copy() for key, column in self._rows.observations.items()}


class ThreadVector(SerialVector):
    """N environments on `threads` threads, which take the next free environment each."""

    def __init__(self, env_fn: EnvFactory, num_envs: int, threads: int) -> None:
        """Make `num_envs` environments and start the threads."""
        super().__init__(env_fn, num_envs)
        self._switch_interval_s = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._results: SimpleQueue[_Result] = SimpleQueue()
        self._threads = [
            Thread(target=_serve, args=(self._jobs, self._results), daemon=True, name=f"env-{i}")
            for i in range(min(threads, num_envs))
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the threads and the environments."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []
        sys.setswitchinterval(self._switch_interval_s)
        super().close()

    def _each(self, call: Callable[[int], T]) -> list[T]:
        for i in range(self.num_envs):
            self._jobs.put((call, i))
        results = sorted((self._results.get() for _ in range(self.num_envs)), key=lambda r: r[0])
        for _, _, error in results:
            if error is not None:
                raise error
        return [value for _, value, _ in results]


def _serve(jobs: SimpleQueue[_Job | None], results: SimpleQueue[_Result]) -> None:
    """What a thread does until it is handed None. Errors travel to who asked."""
    while (job := jobs.get()) is not None:
        call, i = job
        try:
            results.put((i, call(i), None))
        except BaseException as error:  # noqa: BLE001 - raised again by `_each`
            results.put((i, None, error))
