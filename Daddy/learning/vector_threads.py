"""N environments in this process: one after the other, or on a few threads.

Threads pay where the environment's work leaves the interpreter's lock alone, as the emulator does.
Both promise the same trajectories: an environment is only ever stepped by one thread at a time.
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
from Daddy.learning.vector_rows import EnvFactory, EnvRow, Outcome, Rows, VectorEnv, layout_of

if TYPE_CHECKING:
    from Daddy.learning.interfaces import Observations

_SWITCH_INTERVAL_S = 0.0002
"""Python's 5 ms are fifteen steps of an emulator: what waits for the interpreter waits that long
behind a save state being loaded."""


class Batch:
    """Calls that belong together, one for each of some environments."""

    def __init__(self, call: Callable[[int], Any], envs: Iterable[int]) -> None:
        self._call, self._lock = call, Lock()
        self.envs = list(envs)
        self._left = len(self.envs)
        self._values: dict[int, Any] = {}
        self._error: BaseException | None = None

    def run(self, env: int) -> bool:
        """Carry out one of them; whether it was the last."""
        try:
            self._values[env] = self._call(env)
        except BaseException as error:  # noqa: BLE001 - raised again by whoever asks
            self._error = error
        with self._lock:
            self._left -= 1
            return not self._left

    def values(self) -> list[Any]:
        """What they returned, in the environments' order; raises what one of them raised."""
        if self._error is not None:
            raise self._error
        return [self._values[env] for env in self.envs]


class SerialVector(VectorEnv):
    """N environments stepped in turn, as one group."""

    def __init__(self, env_fn: EnvFactory, num_envs: int, groups: int = 1) -> None:
        """Make `num_envs` environments."""
        envs = [env_fn() for _ in range(num_envs)]
        super().__init__(layout_of(envs[0]), num_envs, groups)
        self._rows = Rows(self._layout, np.zeros((num_envs, self._layout.size), np.uint8))
        self._envs = [EnvRow(env, self._rows, i, i) for i, env in enumerate(envs)]
        self._watched: frozenset[int] = frozenset()
        self._pictured: frozenset[int] = frozenset()
        self._drawn: dict[int, frozenset[int]] = {}
        """Whose pictures each group draws in the step it is out for."""
        self._over: SimpleQueue[tuple[int, Batch]] = SimpleQueue()

    def reset(self, seeds: Sequence[int]) -> Observations:
        """Begin afresh, environment i with seeds[i]."""
        self._each(lambda i: self._envs[i].reset(int(seeds[i])))
        return self._observations(slice(None))

    def send(self, group: int, actions: NDArray[np.integer[Any]]) -> None:
        """Begin a step of one group."""
        members, watched = self.groups[group], self._watched
        chosen = dict(zip(range(members.start, members.stop), actions.tolist(), strict=True))
        self._drawn[group] = watched & chosen.keys()

        def step(i: int) -> Outcome:
            return self._envs[i].step(chosen[i], i in watched)

        self._begin(group, Batch(step, chosen))

    def recv(self) -> tuple[int, Transition]:
        """The next group whose step is over; raises what one of its environments raised."""
        group, batch = self._over.get()
        outcomes = batch.values()
        self._pictured = self._pictured - set(batch.envs) | self._drawn[group]
        return group, self._transition(self.groups[group], outcomes)

    def _transition(self, members: slice, outcomes: list[Outcome]) -> Transition:
        return Transition(
            self._observations(members),
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
        return self._observations(slice(None))

    def close(self) -> None:
        """End all environments."""
        for env in self._envs:
            env.close()

    def _begin(self, group: int, batch: Batch) -> None:
        """See to it that `batch` is run and then `group` is told to be over."""
        for env in batch.envs:
            batch.run(env)
        self._over.put((group, batch))

    def _each(self, call: Callable[[int], Any]) -> list[Any]:
        """`call` for every environment; results in order."""
        batch = Batch(call, range(self.num_envs))
        self._begin(0, batch)
        self._over.get()
        return batch.values()

    def _observations(self, members: slice) -> Observations:
        return {key: column[members].copy() for key, column in self._rows.observations.items()}


class ThreadVector(SerialVector):
    """N environments on `threads` threads, which take the next free environment each."""

    def __init__(self, env_fn: EnvFactory, num_envs: int, threads: int, groups: int = 1) -> None:
        """Make `num_envs` environments and start the threads."""
        super().__init__(env_fn, num_envs, groups)
        self._switch_interval_s = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        self._jobs: SimpleQueue[tuple[int, Batch, int] | None] = SimpleQueue()
        self._threads = [
            Thread(target=self._serve, daemon=True, name=f"env-{i}")
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

    def _begin(self, group: int, batch: Batch) -> None:
        for env in batch.envs:
            self._jobs.put((group, batch, env))

    def _serve(self) -> None:
        """What a thread does until it is handed None; who runs a batch's last call says so."""
        while (job := self._jobs.get()) is not None:
            group, batch, env = job
            if batch.run(env):
                self._over.put((group, batch))
