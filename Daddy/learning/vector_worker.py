"""Runs a few environments in an env process, behind pufferlib's native interface.

The process sleeps between two commands, and ends with the close command or with its driver. It
ignores the signals that stop a job, because the driver still needs the environments for its last
checkpoint.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
from gymnasium.spaces import Box, MultiDiscrete
from numpy.typing import NDArray

from Daddy.core.atomic_files import write_atomic
from Daddy.core.errors import DaddyError
from Daddy.core.host_and_processes import die_with_parent
from Daddy.learning.interfaces import EpisodeEnd
from Daddy.learning.quiet_pufferlib_import import PufferEnv, pufferlib_vector
from Daddy.learning.vector_rows import EnvFactory, EnvRow, RowLayout, Rows

T = TypeVar("T")
DRAWN = 1
"""Second part of an action: draw a picture in this step."""
_LIVENESS_S = 1.0
"""Seconds between two checks that the driver is alive, where the kernel does not signal its end."""


@dataclass(frozen=True)
class WorkerAssignment:
    """Names one env process's environments: `count` from `first` on, in a block of `size` rows.

    Semaphores: `go` wakes this process. `others`, shared by a block, counts its processes less one:
    each acquires it when it is done, and the last, which cannot, wakes the driver by `done`.
    """

    first: int
    count: int
    size: int
    layout: RowLayout
    go: Any
    others: Any
    done: Any

    def select(self, values: Sequence[T]) -> list[T]:
        """Return the values of this process's environments from one value per environment."""
        return list(values[self.first : self.first + self.count])


class EnvGroup(PufferEnv):  # type: ignore[misc]
    """Steps the environments of one assignment as one native pufferlib environment.

    An observation is a row of bytes (`RowLayout`); an action is (action, DRAWN or 0).
    Rows beyond `count` pad the block and are never touched.
    """

    def __init__(
        self, env_fn: EnvFactory, assignment: WorkerAssignment, buf: SimpleNamespace | None = None
    ) -> None:
        """Make the environments; if `buf` is None (in the driver) set only the spaces."""
        self.single_observation_space = Box(0, 255, (assignment.layout.size,), np.uint8)
        self.single_action_space = MultiDiscrete([int(assignment.layout.action_space.n), 2])
        self.num_agents = assignment.size
        super().__init__(buf)
        rows = Rows(assignment.layout, self.observations)
        numbers = range(assignment.count if buf is not None else 0)
        self._first = assignment.first
        self._envs = [EnvRow(env_fn(), rows, i, self._first + i) for i in numbers]

    def reset(self, seed: Any = None) -> tuple[Any, list[Any]]:
        """Carry out a message: ("seeds", [seed, ...]), ("save", folder) or ("load", folder)."""
        command, value = seed
        for i, env in enumerate(self._envs):
            if command == "seeds":
                env.reset(value[i])
            elif command == "save":
                write_atomic(state_path(value, self._first + i), env.save())
            elif command == "load":
                env.restore(state_path(value, self._first + i).read_bytes())
        return self.observations, []

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, list[Any]]:
        """Step each environment; return pufferlib's arrays, and the ended episodes as infos.

        All emulators run first, then Python computes all observations and rewards. That costs a
        quarter of alternating, since 24 emulated frames evict Python from the caches (measured).
        """
        ended, pairs = [], actions.tolist()
        for env, (action, _) in zip(self._envs, pairs, strict=False):
            env.start_step(action)
        for i, env in enumerate(self._envs):
            result = env.finish_step(pairs[i][1] == DRAWN)
            self.rewards[i] = result.reward
            self.terminals[i], self.truncations[i] = result.terminated, result.truncated
            if result.episode is not None:
                ended.append(_plain(result.episode))
        return self.observations, self.rewards, self.terminals, self.truncations, ended

    def close(self) -> None:
        """End the environments."""
        for env in self._envs:
            env.close()


def state_path(folder: str, number: int) -> Path:
    """Return the path of the file that passes a state between driver and env process."""
    return Path(folder) / f"{number}.state"


def _plain(episode: EpisodeEnd) -> tuple[Any, ...]:
    return episode.env, episode.episode_return, episode.length, dict(episode.info)


def env_process(
    creators: Sequence[Callable[..., EnvGroup]],
    arguments: Sequence[tuple[EnvFactory, WorkerAssignment]],
    _options: Any,
    observation_shape: tuple[int, ...],
    observation_type: Any,
    action_shape: tuple[int, ...],
    action_type: Any,
    _groups: int,
    rows: int,
    processes: int,
    index: int,
    answers: Connection,
    messages: Connection,
    shared: Any,
    _native: bool,
) -> None:
    """Run an env process until its close command; takes the arguments of pufferlib's function."""
    driver = os.getppid()
    die_with_parent()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    view = _Shared(shared, (processes, rows), index)
    actions = view.rows("actions", action_type, action_shape)
    buffer = view.buffer(observation_type, observation_shape, actions)
    flags: NDArray[np.uint8] = np.ndarray(processes, np.uint8, shared.semaphores)
    env_fn, assignment = arguments[0]
    group: EnvGroup | None = None
    while _wait_for_command(assignment, driver) and flags[index] != pufferlib_vector.CLOSE:
        try:
            group = group or creators[0](env_fn, assignment, buf=buffer)
            infos = _execute(group, int(flags[index]), messages, actions)
        except DaddyError as error:
            infos = [error]  # raised by the driver
        except Exception:  # noqa: BLE001 - sent to the driver, which raises it
            infos = [traceback.format_exc()]
        flags[index] = pufferlib_vector.INFO if infos else pufferlib_vector.MAIN
        if infos:
            answers.send(infos)
        if not assignment.others.acquire(block=False):
            assignment.done.release()
    if group is not None:
        group.close()


def _wait_for_command(assignment: WorkerAssignment, driver: int) -> bool:
    """Sleep until the driver sends a command; return False if the driver has ended."""
    while not assignment.go.acquire(timeout=_LIVENESS_S):
        if os.getppid() != driver:
            return False
    return True


def _execute(group: EnvGroup, command: int, messages: Connection, actions: Any) -> list[Any]:
    if command == pufferlib_vector.RESET:
        return group.reset(messages.recv())[1]
    return group.step(actions)[4] if command == pufferlib_vector.STEP else []


class _Shared:
    """Gives access to this process's rows of the arrays that pufferlib shares."""

    def __init__(self, shared: Any, shape: tuple[int, int], index: int) -> None:
        self._shared, self._shape, self._index = shared, shape, index

    def rows(self, name: str, dtype: Any, inner: tuple[int, ...] = ()) -> Any:
        """Return the rows of this process in the array `name`."""
        return np.ndarray((*self._shape, *inner), dtype, getattr(self._shared, name))[self._index]

    def buffer(self, dtype: Any, shape: tuple[int, ...], actions: Any) -> SimpleNamespace:
        """Return this process's arrays by the names that a native pufferlib environment expects."""
        buffer = SimpleNamespace(
            observations=self.rows("observations", dtype, shape),
            rewards=self.rows("rewards", np.float32),
            terminals=self.rows("terminals", np.bool_),
            truncations=self.rows("truncateds", np.bool_),
            masks=self.rows("masks", np.bool_),
            actions=actions,
        )
        buffer.masks[:] = True
        return buffer
