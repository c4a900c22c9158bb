"""Runs N environments in pufferlib's processes, with as many processes per group as cores.

While one group waits for its next actions, or for its slowest process, the processes of the other
groups use the cores.
"""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Sequence
from multiprocessing import Semaphore
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from Daddy.core.atomic_files import write_atomic
from Daddy.learning.interfaces import EpisodeEnd, Transition
from Daddy.learning.pufferlib_multiprocessing import SleepingMultiprocessing
from Daddy.learning.quiet_pufferlib_import import pufferlib_vector
from Daddy.learning.vector_rows import EnvFactory, RowLayout, Rows, VectorEnv, row_layout
from Daddy.learning.vector_worker import DRAWN, WorkerAssignment, state_path

if TYPE_CHECKING:
    from Daddy.learning.interfaces import Observations


class PufferVector(VectorEnv):
    """Runs N environments; each group has `processes` env processes of its own."""

    def __init__(self, env_fn: EnvFactory, num_envs: int, processes: int, groups: int = 1) -> None:
        """Make one environment in this process to read its spaces, `num_envs` in env processes."""
        probe: Any = env_fn()
        super().__init__(row_layout(probe), num_envs, groups)
        probe.close()
        self._assignments = _assign(self.groups, processes, self._layout)
        self._puffer = SleepingMultiprocessing(env_fn, self._assignments, len(self.groups))
        self._buffer = {name: _flat(array) for name, array in vars(self._puffer.buf).items()}
        self._rows = Rows(self._layout, self._buffer["observations"])
        self._actions = _flat(self._puffer.actions)
        block = len(self._actions) // len(self.groups)
        size = num_envs // len(self.groups)
        self._blocks = [slice(first, first + size) for first in range(0, len(self._actions), block)]
        """Rows of each group; the rows between two groups are padding."""
        self._row = np.concatenate([np.r_[rows] for rows in self._blocks])
        """Row of each environment."""
        self._requested = np.zeros(num_envs, bool)
        self._pictured = np.zeros(num_envs, bool)
        atexit.register(self.close)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the env processes."""
        return tuple(process.pid for process in self._puffer.processes)

    def reset(self, seeds: Sequence[int]) -> Observations:
        numbers = [int(seed) for seed in seeds]
        messages = [("seeds", assignment.select(numbers)) for assignment in self._assignments]
        self._puffer.send_messages(messages)
        return self._observations(self._row)

    def send(self, group: int, actions: NDArray[np.integer[Any]]) -> None:
        members, rows = self.groups[group], self._blocks[group]
        np.copyto(self._actions[rows, 0], actions, casting="same_kind")  # refuses floats
        self._actions[rows, 1] = self._requested[members] * DRAWN
        self._puffer.start_command(group, pufferlib_vector.STEP)

    def recv(self) -> tuple[int, Transition]:
        """Wait for a group's step and return it; EnvProcessError if a process ended or hangs."""
        group = self._puffer.wait_for_block()
        ended = [EpisodeEnd(*info) for info in self._puffer.receive_infos(group)]
        rows = self._blocks[group]
        self._pictured[self.groups[group]] = self._actions[rows, 1] & DRAWN
        return group, Transition(
            self._observations(rows),
            self._buffer["rewards"][rows].copy(),
            self._buffer["terminals"][rows].copy(),
            self._buffer["truncations"][rows].copy(),
            sorted(ended, key=lambda episode: episode.env),
        )

    def telemetry(self) -> NDArray[np.float32]:
        newest: NDArray[np.float32] = self._rows.telemetry[self._row]
        return newest

    def request_pictures(self, agents: frozenset[int]) -> None:
        self._requested[:] = False
        self._requested[[agent for agent in agents if agent < self.num_envs]] = True

    def pictures(self) -> dict[int, bytes]:
        pictures, row = self._rows.pictures, self._row
        return {i: pictures[row[i]].tobytes() for i in np.flatnonzero(self._pictured).tolist()}

    def save_states(self) -> list[bytes]:
        """Return each environment's state, which its env process passes through a file."""
        with tempfile.TemporaryDirectory(prefix="daddy-states-") as folder:
            self._puffer.send_messages([("save", folder)] * len(self._assignments))
            return [state_path(folder, i).read_bytes() for i in range(self.num_envs)]

    def load_states(self, states: list[bytes]) -> Observations:
        with tempfile.TemporaryDirectory(prefix="daddy-states-") as folder:
            for i, state in enumerate(states):
                write_atomic(state_path(folder, i), state)
            self._puffer.send_messages([("load", folder)] * len(self._assignments))
        return self._observations(self._row)

    def close(self) -> None:
        """End the env processes."""
        atexit.unregister(self.close)
        self._puffer.close()

    def _observations(self, rows: slice | NDArray[np.int64]) -> Observations:
        return {key: column[rows].copy() for key, column in self._rows.observations.items()}


def _assign(groups: Sequence[slice], processes: int, layout: RowLayout) -> list[WorkerAssignment]:
    """Assign each group's environments to `processes` env processes, fewer for a small group."""
    done = Semaphore(0)
    size = -(-(groups[0].stop - groups[0].start) // processes)
    assignments = []
    for group in groups:
        others = Semaphore(0)
        for first in range(group.start, group.stop, size):
            count = min(size, group.stop - first)
            semaphores = Semaphore(0), others, done
            assignments.append(WorkerAssignment(first, count, size, layout, *semaphores))
    return assignments


def _flat(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array (processes, rows, ...) as a view (processes * rows, ...)."""
    return array.reshape(-1, *array.shape[2:])
