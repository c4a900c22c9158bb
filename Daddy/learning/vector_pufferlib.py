"""N environments in pufferlib's processes: each group's in as many as there are cores.

While one group waits for its next actions, or for its slowest process, the others' processes have
the cores: nobody waits for everybody.
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
from Daddy.learning.pufferlib_import import pufferlib_vector
from Daddy.learning.pufferlib_multiprocessing import SleepingMultiprocessing
from Daddy.learning.vector_rows import EnvFactory, Layout, Rows, VectorEnv, layout_of
from Daddy.learning.vector_worker import DRAWN, Seat, state_path

if TYPE_CHECKING:
    from Daddy.learning.interfaces import Observations


class PufferVector(VectorEnv):
    """N environments, each group's spread evenly over `processes` env processes of its own."""

    def __init__(self, env_fn: EnvFactory, num_envs: int, processes: int, groups: int = 1) -> None:
        """Make one environment here to learn the spaces, and `num_envs` in the env processes."""
        probe: Any = env_fn()
        super().__init__(layout_of(probe), num_envs, groups)
        probe.close()
        self._seats = _seats(self.groups, processes, self._layout)
        self._puffer = SleepingMultiprocessing(env_fn, self._seats, len(self.groups))
        self._buffer = {name: _flat(array) for name, array in vars(self._puffer.buf).items()}
        self._rows = Rows(self._layout, self._buffer["observations"])
        self._actions = _flat(self._puffer.actions)
        block = len(self._actions) // len(self.groups)
        size = num_envs // len(self.groups)
        self._blocks = [slice(first, first + size) for first in range(0, len(self._actions), block)]
        """Rows of each group; what follows them up to the next is padding."""
        self._row = np.concatenate([np.r_[rows] for rows in self._blocks])
        """Row of each environment."""
        self._watched = np.zeros(num_envs, bool)
        self._pictured = np.zeros(num_envs, bool)
        atexit.register(self.close)

    @property
    def pids(self) -> tuple[int, ...]:
        """The env processes."""
        return tuple(process.pid for process in self._puffer.processes)

    def reset(self, seeds: Sequence[int]) -> Observations:
        """Begin afresh, environment i with seeds[i]."""
        chosen = [int(seed) for seed in seeds]
        self._puffer.ask([("seeds", seat.share(chosen)) for seat in self._seats])
        return self._observations(self._row)

    def send(self, group: int, actions: NDArray[np.integer[Any]]) -> None:
        """Begin a step of one group."""
        members, rows = self.groups[group], self._blocks[group]
        self._actions[rows, 0] = actions
        self._actions[rows, 1] = self._watched[members] * DRAWN
        self._puffer.wake(group, pufferlib_vector.STEP)

    def recv(self) -> tuple[int, Transition]:
        """The next group whose step is over; EnvProcessError when none ever will be."""
        group = self._puffer.await_block()
        ended = [EpisodeEnd(*info) for info in self._puffer.infos_of(group)]
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
        """(N, len(telemetry_names)) float32."""
        newest: NDArray[np.float32] = self._rows.telemetry[self._row]
        return newest

    def watch(self, agents: frozenset[int]) -> None:
        """Draw pictures of these environments from the next step on."""
        self._watched[:] = False
        self._watched[[agent for agent in agents if agent < self.num_envs]] = True

    def frames(self) -> dict[int, bytes]:
        """The newest picture of each watched environment."""
        pictures, row = self._rows.pictures, self._row
        return {i: pictures[row[i]].tobytes() for i in np.flatnonzero(self._pictured).tolist()}

    def save_states(self) -> list[bytes]:
        """One state per environment; they travel as private files, which a death cannot tear."""
        with tempfile.TemporaryDirectory(prefix="daddy-states-") as folder:
            self._puffer.ask([("save", folder)] * len(self._seats))
            return [state_path(folder, i).read_bytes() for i in range(self.num_envs)]

    def load_states(self, states: list[bytes]) -> Observations:
        """Go on exactly from `save_states`."""
        with tempfile.TemporaryDirectory(prefix="daddy-states-") as folder:
            for i, state in enumerate(states):
                write_atomic(state_path(folder, i), state)
            self._puffer.ask([("load", folder)] * len(self._seats))
        return self._observations(self._row)

    def close(self) -> None:
        """End the env processes."""
        atexit.unregister(self.close)
        self._puffer.close()

    def _observations(self, rows: slice | NDArray[np.int64]) -> Observations:
        return {key: column[rows].copy() for key, column in self._rows.observations.items()}


def _seats(groups: Sequence[slice], processes: int, layout: Layout) -> list[Seat]:
    """The seats of `processes` env processes per group, or of one per environment if fewer."""
    done = Semaphore(0)
    size = -(-(groups[0].stop - groups[0].start) // processes)
    seats = []
    for group in groups:
        others = Semaphore(0)
        for first in range(group.start, group.stop, size):
            count = min(size, group.stop - first)
            seats.append(Seat(first, count, size, layout, Semaphore(0), others, done))
    return seats


def _flat(array: NDArray[Any]) -> NDArray[Any]:
    """An array (processes, rows, ...) of pufferlib's as one row per place."""
    return array.reshape(-1, *array.shape[2:])
