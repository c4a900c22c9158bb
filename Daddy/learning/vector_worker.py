"""Inside an env process: a few environments behind pufferlib's native interface.

Owns what the process does between two commands (it sleeps) and what ends it: the driver's word, or
the driver's death. Signals to the whole job are the driver's business: it still needs the
environments for its last checkpoint.
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
from Daddy.core.machine_info import die_with_parent
from Daddy.learning.interfaces import EpisodeEnd
from Daddy.learning.pufferlib_import import PufferEnv, pufferlib_vector
from Daddy.learning.vector_rows import EnvFactory, EnvRow, Layout, Rows

T = TypeVar("T")
DRAWN = 1
"""Asked of a step besides its action: a picture."""
_LOOK_S = 1.0
"""Seconds between two looks whether the driver still lives, where the kernel does not tell."""


@dataclass(frozen=True)
class Seat:
    """One env process's part: environments `first` to `first + count`, in a block of `size` rows.

    Semaphores: `go` wakes this process. `others`, which those of one block share, holds a place for
    each of them but the last to be done: that one finds none and wakes the driver by `done`.
    """

    first: int
    count: int
    size: int
    layout: Layout
    go: Any
    others: Any
    done: Any

    def share(self, values: Sequence[T]) -> list[T]:
        """This process's part of a sequence with one value per environment."""
        return list(values[self.first : self.first + self.count])


class EnvGroup(PufferEnv):  # type: ignore[misc]
    """The environments of one seat as one native pufferlib environment.

    An observation is a row of bytes (`Layout`); an action is (action, DRAWN or 0).
    Rows beyond `count` pad the block and are never touched.
    """

    def __init__(self, env_fn: EnvFactory, seat: Seat, buf: SimpleNamespace | None = None) -> None:
        """Without a buffer (in the driver) only the spaces exist, no environment."""
        self.single_observation_space = Box(0, 255, (seat.layout.size,), np.uint8)
        self.single_action_space = MultiDiscrete([int(seat.layout.action_space.n), 2])
        self.num_agents = seat.size
        super().__init__(buf)
        rows = Rows(seat.layout, self.observations)
        numbers = range(seat.count if buf is not None else 0)
        self._envs = [EnvRow(env_fn(), rows, i, seat.first + i) for i in numbers]
        self._first = seat.first

    def reset(self, seed: Any = None) -> tuple[Any, list[Any]]:
        """Carry out a message: ("seeds", [seed, ...]), ("save", folder) or ("load", folder)."""
        command, value = seed
        for i, env in enumerate(self._envs):
            if command == "seeds":
                env.reset(value[i])
            elif command == "save":
                write_atomic(state_path(value, self._first + i), env.save())
            elif command == "load":
                env.load(state_path(value, self._first + i).read_bytes())
        return self.observations, []

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, list[Any]]:
        """Step each environment; the infos are the ended episodes.

        First the emulators of all, then what Python makes of them: a quarter of the cost of taking
        turns, because the emulator's 24 frames leave nothing of Python in the caches (measured).
        """
        ended, asked = [], actions.tolist()
        for env, (action, _) in zip(self._envs, asked, strict=False):
            env.begin(action)
        for i, env in enumerate(self._envs):
            outcome = env.finish(asked[i][1] == DRAWN)
            self.rewards[i] = outcome.reward
            self.terminals[i], self.truncations[i] = outcome.terminated, outcome.truncated
            if outcome.episode is not None:
                ended.append(_plain(outcome.episode))
        return self.observations, self.rewards, self.terminals, self.truncations, ended

    def close(self) -> None:
        """End the environments."""
        for env in self._envs:
            env.close()


def state_path(folder: str, number: int) -> Path:
    """Where an environment's state lies while it travels between driver and env process."""
    return Path(folder) / f"{number}.state"


def _plain(episode: EpisodeEnd) -> tuple[Any, ...]:
    return episode.env, episode.episode_return, episode.length, dict(episode.info)


def env_process(
    creators: Sequence[Callable[..., EnvGroup]],
    arguments: Sequence[tuple[EnvFactory, Seat]],
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
    """Life of an env process; takes the place, and the arguments, of pufferlib's own loop."""
    driver = os.getppid()
    die_with_parent()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    view = _Shared(shared, (processes, rows), index)
    actions = view.of("actions", action_type, action_shape)
    buffer = view.buffer(observation_type, observation_shape, actions)
    flags: NDArray[np.uint8] = np.ndarray(processes, np.uint8, shared.semaphores)
    env_fn, seat = arguments[0]
    group: EnvGroup | None = None
    while _woken(seat, driver) and flags[index] != pufferlib_vector.CLOSE:
        try:
            group = group or creators[0](env_fn, seat, buf=buffer)
            infos = _obey(group, int(flags[index]), messages, actions)
        except Exception:  # noqa: BLE001 - told to the driver, which raises it
            infos = [traceback.format_exc()]
        flags[index] = pufferlib_vector.INFO if infos else pufferlib_vector.MAIN
        if infos:
            answers.send(infos)
        if not seat.others.acquire(block=False):
            seat.done.release()
    if group is not None:
        group.close()


def _woken(seat: Seat, driver: int) -> bool:
    """Sleep until the driver wants something; False when there is no driver any more."""
    while not seat.go.acquire(timeout=_LOOK_S):
        if os.getppid() != driver:
            return False
    return True


def _obey(group: EnvGroup, command: int, messages: Connection, actions: Any) -> list[Any]:
    if command == pufferlib_vector.RESET:
        return group.reset(messages.recv())[1]
    return group.step(actions)[4] if command == pufferlib_vector.STEP else []


class _Shared:
    """One process's part of the arrays that pufferlib shares."""

    def __init__(self, shared: Any, shape: tuple[int, int], index: int) -> None:
        self._shared, self._shape, self._index = shared, shape, index

    def of(self, name: str, dtype: Any, inner: tuple[int, ...] = ()) -> Any:
        """The rows of this process in the array `name`."""
        return np.ndarray((*self._shape, *inner), dtype, getattr(self._shared, name))[self._index]

    def buffer(self, dtype: Any, shape: tuple[int, ...], actions: Any) -> SimpleNamespace:
        """All arrays by the names that a native environment expects."""
        buffer = SimpleNamespace(
            observations=self.of("observations", dtype, shape),
            rewards=self.of("rewards", np.float32),
            terminals=self.of("terminals", np.bool_),
            truncations=self.of("truncateds", np.bool_),
            masks=self.of("masks", np.bool_),
            actions=actions,
        )
        buffer.masks[:] = True
        return buffer
