"""Runs N environments in this process: one after the other, or on a few threads.

Threads help if the environment releases the interpreter's lock, as the emulator does. Both give
the same trajectories, because one thread at a time steps an environment.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from Daddy.learning.interfaces import Transition
from Daddy.learning.vector_rows import EnvFactory, EnvRow, Rows, StepResult, VectorEnv, row_layout

if TYPE_CHECKING:
    from Daddy.learning.interfaces import Observations

_SWITCH_INTERVAL_S = 0.0002
"""Time slice of a thread: in Python's default of 5 ms an emulator could take fifteen steps."""


class CallBatch:
    """Holds one call of a function for each of some environments, and the results."""

    def __init__(self, call: Callable[[int], Any], envs: Iterable[int]) -> None:
        self._call, self._lock = call, Lock()
        self.envs = list(envs)
        self._left = len(self.envs)
        self._results: dict[int, Any] = {}
        self._error: BaseException | None = None

    def call_for(self, env: int) -> bool:
        """Call the function for environment `env`; return True if all others are done already."""
        try:
            self._results[env] = self._call(env)
        except BaseException as error:  # noqa: BLE001 - raised again by results()
            self._error = error
        with self._lock:
            self._left -= 1
            return not self._left

    def results(self) -> list[Any]:
        """Return the results in the environments' order; raise the error of a failed call."""
        if self._error is not None:
            raise self._error
        return [self._results[env] for env in self.envs]


class SerialVector(VectorEnv):
    """Steps N environments in this thread, one after the other."""

    def __init__(self, env_fn: EnvFactory, num_envs: int, groups: int = 1) -> None:
        """Make `num_envs` environments."""
        envs = [env_fn() for _ in range(num_envs)]
        super().__init__(row_layout(envs[0]), num_envs, groups)
        self._rows = Rows(self._layout, np.zeros((num_envs, self._layout.size), np.uint8))
        self._envs = [EnvRow(env, self._rows, i, i) for i, env in enumerate(envs)]
        self._requested: frozenset[int] = frozenset()
        self._pictured: frozenset[int] = frozenset()
        self._drawn: dict[int, frozenset[int]] = {}
        """Environments of each group that its running step draws."""
        self._finished: SimpleQueue[tuple[int, CallBatch]] = SimpleQueue()

    def reset(self, seeds: Sequence[int]) -> Observations:
        self._call_each(lambda i: self._envs[i].reset(int(seeds[i])))
        return self._observations(slice(None))

    def send(self, group: int, actions: NDArray[np.integer[Any]]) -> None:
        members, requested = self.groups[group], self._requested
        chosen = dict(zip(range(members.start, members.stop), actions.tolist(), strict=True))
        self._drawn[group] = requested & chosen.keys()

        def step(i: int) -> StepResult:
            return self._envs[i].step(chosen[i], i in requested)

        self._start(group, CallBatch(step, chosen))

    def recv(self) -> tuple[int, Transition]:
        """Wait for a group's step and return it; raise the error of an environment."""
        group, batch = self._finished.get()
        results = batch.results()
        self._pictured = self._pictured - set(batch.envs) | self._drawn[group]
        return group, self._transition(self.groups[group], results)

    def _transition(self, members: slice, results: list[StepResult]) -> Transition:
        return Transition(
            self._observations(members),
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
        return self._call_each(lambda i: self._envs[i].save())

    def load_states(self, states: list[bytes]) -> Observations:
        self._call_each(lambda i: self._envs[i].restore(states[i]))
        return self._observations(slice(None))

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def _start(self, group: int, batch: CallBatch) -> None:
        """Make all calls of `batch`, then put `group` into the queue of finished groups."""
        for env in batch.envs:
            batch.call_for(env)
        self._finished.put((group, batch))

    def _call_each(self, call: Callable[[int], Any]) -> list[Any]:
        """Call `call` for every environment; return the results in order."""
        batch = CallBatch(call, range(self.num_envs))
        self._start(0, batch)
        self._finished.get()
        return batch.results()

    def _observations(self, members: slice) -> Observations:
        return {key: column[members].copy() for key, column in self._rows.observations.items()}


class ThreadVector(SerialVector):
    """Steps N environments on `threads` threads; each takes the next waiting environment."""

    def __init__(self, env_fn: EnvFactory, num_envs: int, threads: int, groups: int = 1) -> None:
        """Make `num_envs` environments and start the threads."""
        super().__init__(env_fn, num_envs, groups)
        self._switch_interval_s = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        self._calls: SimpleQueue[tuple[int, CallBatch, int] | None] = SimpleQueue()
        self._threads = [
            Thread(target=self._serve, daemon=True, name=f"env-{i}")
            for i in range(min(threads, num_envs))
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the threads and the environments."""
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []
        sys.setswitchinterval(self._switch_interval_s)
        super().close()

    def _start(self, group: int, batch: CallBatch) -> None:
        for env in batch.envs:
            self._calls.put((group, batch, env))

    def _serve(self) -> None:
        """Make queued calls until None is queued; after a batch's last call, queue its group."""
        while (item := self._calls.get()) is not None:
            group, batch, env = item
            if batch.call_for(env):
                self._finished.put((group, batch))
