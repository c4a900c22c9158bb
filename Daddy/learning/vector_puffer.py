"""pufferlib's processes: N environments in as many processes as there are cores.

pufferlib brings the shared memory and its protocol; the waiting is ours. Its driver polls without
pause, its env processes too, a dead env process lets the driver spin for ever, and env processes
outlive a killed driver. Here both sides sleep on semaphores, a death is an error within seconds,
and an env process ends with its driver, however that one ends.
"""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import Semaphore
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.spaces import Dict as DictSpace
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from Daddy.core.errors import DaddyError
from Daddy.core.files import write_atomic
from Daddy.learning.ports import EpisodeEnd, Transition
from Daddy.learning.pufferlib_door import pufferlib_vector
from Daddy.learning.vector_process import EnvGroup, Seat, env_process, state_path
from Daddy.learning.vector_rows import EnvFactory, Rows, layout_of

if TYPE_CHECKING:
    from Daddy.learning.ports import Observations

_LOOK_S = 0.5
"""Seconds between two looks whether the env processes still live."""
_SILENCE_S = 120.0
"""Seconds without an answer from living env processes after which they count as stuck."""
_GOODBYE_S = 2.0


class EnvProcessError(DaddyError):
    """An env process died, failed or hangs; the learner cannot go on without it."""


class SleepingMultiprocessing(pufferlib_vector.Multiprocessing):  # type: ignore[misc]
    """pufferlib's Multiprocessing whose two sides wait asleep, and notice each other's death."""

    def __init__(self, env_fn: EnvFactory, seats: Sequence[Seat]) -> None:
        """Start one env process for each seat."""
        self._seats = seats
        arguments = [(env_fn, seat) for seat in seats]
        with _own_env_process():
            super().__init__(
                *([EnvGroup] * len(seats), arguments, [{}] * len(seats)),
                num_envs=len(seats),
                num_workers=len(seats),
                overwork=True,
            )

    def ask(self, messages: Sequence[Any]) -> None:
        """Send each env process a message (see `EnvGroup.reset`) and wait for all of them."""
        self.flag = pufferlib_vector.RECV
        self.ready_workers: list[int] = []
        self.waiting_workers = list(range(self.num_workers))
        self.infos: list[list[Any]] = [[] for _ in self._seats]
        self.buf.semaphores[:] = pufferlib_vector.RESET
        for pipe, message in zip(self.send_pipes, messages, strict=True):
            pipe.send(message)
        self.answer()

    def answer(self) -> tuple[Any, ...]:
        """Wake the env processes, sleep until all are done, and take what pufferlib collected."""
        for seat in self._seats:
            seat.go.release()
        for _ in self._seats:
            self._await_one()
        answer: tuple[Any, ...] = self.recv()
        for info in answer[4]:
            if isinstance(info, str):
                raise EnvProcessError(f"an environment failed:\n{info}", "this is a bug: report it")
        return answer

    def _await_one(self) -> None:
        """Sleep until one more env process is done; EnvProcessError when one never will be."""
        for _ in range(int(_SILENCE_S / _LOOK_S)):
            if self._seats[0].done.acquire(timeout=_LOOK_S):
                return
            for process in self.processes:
                if not process.is_alive():
                    raise EnvProcessError(
                        f"env process {process.pid} ended with exit code {process.exitcode}",
                        "start again: the learner resumes from its checkpoint; "
                        "if it recurs, look for the out-of-memory killer",
                    )
        raise EnvProcessError(f"no env process answered for {_SILENCE_S:.0f} s", "start again")

    def close(self) -> None:
        """Ask the env processes to end, then make them."""
        self.buf.semaphores[:] = pufferlib_vector.CLOSE
        for seat in self._seats:
            seat.go.release()
        for process in self.processes:
            process.join(_GOODBYE_S)
            if process.is_alive():
                process.kill()
                process.join()


@contextmanager
def _own_env_process() -> Iterator[None]:
    """While pufferlib starts its processes, they are to run our loop instead of its spinning one.

    pufferlib 2.0.2, the only release with wheels, has no option for it; `env_process` follows its
    arguments and its flags in shared memory.
    """
    module: Any = pufferlib_vector
    stock, module._worker_process = module._worker_process, env_process  # noqa: SLF001
    try:
        yield
    finally:
        module._worker_process = stock  # noqa: SLF001


class PufferVector:
    """N environments spread evenly over `processes` env processes. Implements `ports.VectorEnv`."""

    def __init__(self, env_fn: EnvFactory, num_envs: int, processes: int) -> None:
        """Make one environment here to learn the spaces, and `num_envs` in the env processes."""
        probe: Any = env_fn()
        self._layout = layout_of(probe)
        probe.close()
        self._num_envs = num_envs
        size = -(-num_envs // processes)
        done = Semaphore(0)
        seats = [
            Seat(first, min(size, num_envs - first), size, self._layout, Semaphore(0), done)
            for first in range(0, num_envs, size)
        ]
        self._seats = seats
        self._puffer = SleepingMultiprocessing(env_fn, seats)
        buffer = self._puffer.buf.observations.reshape(-1, self._layout.size)[:num_envs]
        self._rows = Rows(self._layout, buffer)
        self._actions = np.zeros((len(seats) * size, 2), np.int32)
        self._pictured: frozenset[int] = frozenset()
        atexit.register(self.close)

    @property
    def num_envs(self) -> int:
        """How many environments there are."""
        return self._num_envs

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

    @property
    def pids(self) -> tuple[int, ...]:
        """The env processes."""
        return tuple(process.pid for process in self._puffer.processes)

    def reset(self, seeds: Sequence[int]) -> Observations:
        """Begin afresh, environment i with seeds[i]."""
        chosen = [int(seed) for seed in seeds]
        self._puffer.ask([("seeds", seat.share(chosen)) for seat in self._seats])
        return self._observations()

    def step(self, actions: NDArray[np.integer[Any]]) -> Transition:
        """Step every environment; see `ports.Transition`."""
        self._actions[: self._num_envs, 0] = actions
        self._pictured = self._watched()
        self._puffer.send(self._actions)
        _, rewards, terminated, truncated, infos, _, _ = self._puffer.answer()
        return Transition(
            self._observations(),
            rewards[: self._num_envs].copy(),
            terminated[: self._num_envs].copy(),
            truncated[: self._num_envs].copy(),
            sorted((EpisodeEnd(*info) for info in infos), key=lambda episode: episode.env),
        )

    def telemetry(self) -> NDArray[np.float32]:
        """(N, len(telemetry_names)) float32."""
        return self._rows.telemetry.copy()

    def watch(self, agents: frozenset[int]) -> None:
        """Draw pictures of these environments from the next step on."""
        self._actions[:, 1] = 0
        self._actions[[agent for agent in agents if agent < self._num_envs], 1] = 1

    def frames(self) -> dict[int, bytes]:
        """The newest picture of each watched environment."""
        return {i: self._rows.pictures[i].tobytes() for i in sorted(self._pictured)}

    def save_states(self) -> list[bytes]:
        """One state per environment; they travel as private files, which a death cannot tear."""
        with tempfile.TemporaryDirectory(prefix="daddy-states-") as folder:
            self._puffer.ask([("save", folder)] * len(self._seats))
            return [state_path(folder, i).read_bytes() for i in range(self._num_envs)]

    def load_states(self, states: list[bytes]) -> Observations:
        """Go on exactly from `save_states`."""
        with tempfile.TemporaryDirectory(prefix="daddy-states-") as folder:
            for i, state in enumerate(states):
                write_atomic(state_path(folder, i), state)
            self._puffer.ask([("load", folder)] * len(self._seats))
        return self._observations()

    def close(self) -> None:
        """End the env processes."""
        atexit.unregister(self.close)
        self._puffer.close()

    def _watched(self) -> frozenset[int]:
        return frozenset(np.nonzero(self._actions[:, 1])[0].tolist())

    def _observations(self) -> Observations:
        return {key: column.copy() for key, column in self._rows.observations.items()}
