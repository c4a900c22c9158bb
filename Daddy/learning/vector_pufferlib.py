"""Adapter for pufferlib: runs N environments in its processes, through its public interface.

Made for pufferlib 2.0.2; runs with 3.0. Compared with the backend of our own, pufferlib lets driver
and env processes poll while they wait, and groups are received in the order in which they were
sent, also if a later one is ready. An env process that dies is an error, as in every backend.
"""

import atexit
import json
import os
import signal
import tempfile
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from functools import partial
from io import StringIO
from multiprocessing import RawArray, active_children
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.spaces import Box, MultiDiscrete
from numpy.typing import NDArray

from Daddy.core.atomic_files import write_atomic
from Daddy.core.errors import DaddyError, UsageError
from Daddy.core.host_and_processes import die_with_parent
from Daddy.core.process_pool import interrupts_blocked
from Daddy.learning.interfaces import EpisodeEnd, Transition
from Daddy.learning.vector_rows import (
    EnvFactory,
    EnvProcessError,
    EnvRow,
    RowLayout,
    Rows,
    VectorEnv,
    row_layout,
)

try:
    with redirect_stderr(StringIO()):  # its dependency gym prints a warning
        from pufferlib import PufferEnv, vector
except Exception as error:
    raise UsageError(
        f"vector_backend pufferlib cannot be used here: {type(error).__name__}: {error}",
        "./scripts/install, or pip install -c constraints.txt -e '.[pufferlib]' (Linux on x86-64, "
        "Python 3.10 or 3.11); or set training.vector_backend to processes",
    ) from error

if TYPE_CHECKING:
    from Daddy.learning.interfaces import Observations

_CLOSING = b"closing"
_CLOSE_S = 2.0
"""Seconds until env processes that do not end are killed."""
_SEED_BYTES = 24
"""Bytes of a seed in a message: the digits of 64 bits, and a comma."""


class PufferGroup(PufferEnv):  # type: ignore[misc]
    """Steps the environments `numbers` as one native pufferlib environment of `size` agents.

    An observation is a row of bytes (`RowLayout`); an action is (action, 1: draw a picture).
    Rows beyond the environments pad the block and are never touched.
    """

    def __init__(
        self,
        env_fn: EnvFactory,
        layout: RowLayout,
        message: Any,
        numbers: range,
        size: int,
        buf: Any = None,
        seed: Any = None,  # noqa: ARG002 - pufferlib 3 passes one
    ) -> None:
        """Set the spaces; in an env process, where `buf` is given, obey the driver alone."""
        self.single_observation_space = Box(0, 255, (layout.size,), np.uint8)
        self.single_action_space = MultiDiscrete([int(layout.action_space.n), 2])
        self.num_agents = size
        super().__init__(buf)
        self._env_fn, self._layout = env_fn, layout
        self._message, self._numbers = message, numbers
        self._envs: list[EnvRow] = []
        if buf is not None:
            _leave_signals_to_the_driver(message)

    def reset(self, seed: Any = None) -> tuple[Any, list[Any]]:  # noqa: ARG002
        """Carry out the driver's message: ["seeds", [seed, …]], ["save" or "load", folder]."""
        return self.observations, _errors_as_infos(self._obey)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, list[Any]]:
        """Step each environment; return pufferlib's arrays, and the ended episodes as infos."""
        infos = _errors_as_infos(partial(self._play, actions.tolist()))
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    def _obey(self) -> list[Any]:
        if not self._envs:
            rows = Rows(self._layout, self.observations)
            self._envs = [
                EnvRow(self._env_fn(), rows, i, number) for i, number in enumerate(self._numbers)
            ]
        command, value = json.loads(self._message.value)
        for env, number in zip(self._envs, self._numbers, strict=True):
            if command == "seeds":
                env.reset(value[number])
            elif command == "save":
                write_atomic(_state_path(value, number), env.save())
            else:
                env.restore(_state_path(value, number).read_bytes())
        return []

    def _play(self, pairs: list[tuple[int, int]]) -> list[Any]:
        ended = []
        for env, (action, _) in zip(self._envs, pairs, strict=False):
            env.start_step(action)
        for i, env in enumerate(self._envs):
            result = env.finish_step(pairs[i][1] == 1)
            self.rewards[i] = result.reward
            self.terminals[i], self.truncations[i] = result.terminated, result.truncated
            if (end := result.episode) is not None:
                ended.append((end.env, end.episode_return, end.length, dict(end.info)))
        return ended

    def close(self) -> None:
        """End the environments."""
        for env in self._envs:
            env.close()


def _leave_signals_to_the_driver(message: Any) -> None:
    """Ignore signals to the whole job: a draining learner needs states for its last checkpoint.

    pufferlib's `close` sends SIGTERM, which ends this process once the driver has said so.
    """
    die_with_parent()
    for number in (signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: message.value == _CLOSING and os._exit(0))


def _errors_as_infos(call: Callable[[], list[Any]]) -> list[Any]:
    """Return the infos of `call`, or its error, since pufferlib does not notice a process's end."""
    try:
        return call()
    except DaddyError as error:
        return [error]  # raised by the driver
    except Exception:  # noqa: BLE001 - sent to the driver, which raises it
        return [traceback.format_exc()]


def _state_path(folder: str, number: int) -> Path:
    """Return the path of the file that passes a state between driver and env process."""
    return Path(folder) / f"{number}.state"


class PufferVector(VectorEnv):
    """Runs N environments; each group is a vector of pufferlib with `processes` env processes."""

    def __init__(self, env_fn: EnvFactory, num_envs: int, processes: int, groups: int = 1) -> None:
        """Make one environment in this process to read its spaces, `num_envs` in env processes."""
        probe: Any = env_fn()
        super().__init__(row_layout(probe), num_envs, groups)
        probe.close()
        self._group_size = num_envs // len(self.groups)
        self._message = RawArray("c", 4096 + _SEED_BYTES * num_envs)
        others = set(active_children())
        with interrupts_blocked():
            self._vectors = [self._start(env_fn, group, processes) for group in self.groups]
            self._processes = set(active_children()) - others
        atexit.register(self.close)
        self._sent = deque[int]()
        signal.signal(signal.SIGCHLD, _handle_child_end)
        agents = int(self._vectors[0].num_agents)
        blank = np.zeros((agents, self._layout.size), np.uint8)
        self._rows = [Rows(self._layout, blank) for _ in self.groups]
        self._actions = [np.zeros((agents, 2), np.int32) for _ in self.groups]
        self._requested, self._pictured = np.zeros(num_envs, bool), np.zeros(num_envs, bool)

    def _start(self, env_fn: EnvFactory, group: slice, processes: int) -> Any:
        """Start pufferlib's vector of a group: equal blocks of rows, the last one padded."""
        size = -(-self._group_size // processes)
        blocks = [
            range(first, min(first + size, group.stop))
            for first in range(group.start, group.stop, size)
        ]
        return vector.make(
            [PufferGroup] * len(blocks),
            [(env_fn, self._layout, self._message, numbers, size) for numbers in blocks],
            [{}] * len(blocks),
            backend=vector.Multiprocessing,
            num_envs=len(blocks),
            num_workers=len(blocks),
            overwork=True,
        )

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the env processes."""
        return tuple(process.pid or 0 for process in self._processes)

    def reset(self, seeds: Sequence[int]) -> "Observations":
        return self._command("seeds", [int(seed) for seed in seeds])

    def send(self, group: int, actions: NDArray[np.integer[Any]]) -> None:
        pairs = self._actions[group]
        np.copyto(pairs[: self._group_size, 0], actions, casting="same_kind")  # refuses floats
        pairs[: self._group_size, 1] = self._requested[self.groups[group]]
        self._vectors[group].send(pairs)
        self._sent.append(group)

    def recv(self) -> tuple[int, Transition]:
        """Wait for the group that was sent first; EnvProcessError if a process ended."""
        group, used = self._sent.popleft(), slice(self._group_size)
        rewards, terminated, truncated, ended = self._receive(group)
        self._pictured[self.groups[group]] = self._actions[group][used, 1]
        return group, Transition(
            self._observations(group),
            rewards[used].copy(),
            terminated[used].copy(),
            truncated[used].copy(),
            sorted((EpisodeEnd(*info) for info in ended), key=lambda episode: episode.env),
        )

    def telemetry(self) -> NDArray[np.float32]:
        return np.concatenate([rows.telemetry[: self._group_size] for rows in self._rows])

    def request_pictures(self, agents: frozenset[int]) -> None:
        self._requested[:] = [i in agents for i in range(self.num_envs)]

    def pictures(self) -> dict[int, bytes]:
        drawn = [(i, *divmod(i, self._group_size)) for i in np.flatnonzero(self._pictured).tolist()]
        return {i: self._rows[group].pictures[row].tobytes() for i, group, row in drawn}

    def save_states(self) -> list[bytes]:
        """Return each environment's state, which its env process passes through a file."""
        with tempfile.TemporaryDirectory(prefix="daddy-states-") as folder:
            self._command("save", folder)
            return [_state_path(folder, i).read_bytes() for i in range(self.num_envs)]

    def load_states(self, states: list[bytes]) -> "Observations":
        with tempfile.TemporaryDirectory(prefix="daddy-states-") as folder:
            for i, state in enumerate(states):
                write_atomic(_state_path(folder, i), state)
            return self._command("load", folder)

    def close(self) -> None:
        """End the env processes."""
        atexit.unregister(self.close)
        self._message.value = _CLOSING
        for group in self._vectors:
            group.close()
        for process in self._processes:
            process.join(_CLOSE_S)
            process.kill()
            process.join()

    def _command(self, command: str, value: Any) -> "Observations":
        """Have all env processes carry out a command; return the observations after it.

        pufferlib passes seeds alone, so the command lies in shared memory.
        """
        self._message.value = json.dumps([command, value]).encode()
        for group in self._vectors:
            group.async_reset(0)
        for number in range(len(self.groups)):
            self._receive(number)
        parts = [self._observations(number) for number in range(len(self.groups))]
        return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}

    def _receive(self, group: int) -> tuple[Any, ...]:
        """Wait for a group; return rewards, terminated, truncated, infos; raise its error."""
        _waiting.append(self)
        try:
            self.check_liveness()
            observations, *arrays, infos, _, _ = self._vectors[group].recv()
        finally:
            _waiting.remove(self)
        for info in infos:
            if isinstance(info, DaddyError):
                raise info
            if isinstance(info, str):
                raise EnvProcessError(f"an environment failed:\n{info}", "this is a bug: report it")
        self._rows[group] = Rows(self._layout, observations)
        return *arrays, infos

    def check_liveness(self) -> None:
        """Raise EnvProcessError if an env process ended."""
        for process in self._processes:
            if not process.is_alive():
                raise EnvProcessError(
                    f"env process {process.pid} ended with exit code {process.exitcode}",
                    "start again: the learner continues from its checkpoint; "
                    "if it recurs, look for the out-of-memory killer",
                )

    def _observations(self, group: int) -> "Observations":
        columns = self._rows[group].observations
        return {key: column[: self._group_size].copy() for key, column in columns.items()}


_waiting: list[PufferVector] = []
"""Vectors in pufferlib's `recv`."""


def _handle_child_end(*_: object) -> None:
    """Handle SIGCHLD: pufferlib's `recv` would poll for ever."""
    for receiver in _waiting:
        receiver.check_liveness()
