"""Runs a few environments in an env process, and defines the memory that it shares.

The process sleeps between two commands. The driver's end of its connection closes with the driver,
even a killed one, which ends the process; a thread ends it where an environment hangs. It ignores
the signals that stop a job, because the driver still needs the environments for its last
checkpoint.
"""

import mmap
import os
import signal
import struct
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from multiprocessing.reduction import DupFd
from threading import Event, Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from Daddy.core.errors import DaddyError
from Daddy.core.host_and_processes import let_others_run_first, present_core
from Daddy.core.nameless_memory import make_nameless_file
from Daddy.learning.interfaces import EpisodeEnd
from Daddy.learning.vector_rows import EnvFactory, EnvRow, RowLayout, Rows

DONE = struct.Struct("<HH")
"""The word that a group's last process writes when all are done: the group, and its own core."""
STEP, MESSAGE = b"s", b"m"
"""Commands: take a step with the actions in the shared memory; read a message and carry it out."""
LEFT_TO_DRIVER = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
"""Signals that env processes ignore."""
_GRACE_S = 2.0
"""Seconds that a step may go on after the driver's end."""
_STEP_FIELDS = np.dtype(
    [("action", "<i8"), ("reward", "<f4"), ("draw", "?"), ("terminated", "?"), ("truncated", "?")],
    align=True,
)


class SharedBytes:
    """Holds `size` bytes without a name, which processes share by their file descriptor."""

    def __init__(self, size: int, descriptor: Any = None) -> None:
        """Make the bytes, or open those of another process by its `descriptor`."""
        self._size = size
        self._fd: int = descriptor.detach() if descriptor else make_nameless_file(size)
        self.array = np.frombuffer(mmap.mmap(self._fd, size), np.uint8)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pass the descriptor to a process that is being started."""
        return SharedBytes, (self._size, DupFd(self._fd))

    def close(self) -> None:
        """Close the descriptor; the array remains."""
        os.close(self._fd)


class SharedArrays:
    """Holds views of the shared memory: rows, and a step's inputs and results by environment.

    `has_answer` is 1 for each env process that has sent an answer that the driver has not read.
    """

    def __init__(
        self, layout: RowLayout, num_envs: int, processes: int, memory: NDArray[np.uint8]
    ) -> None:
        rows = num_envs * layout.size
        self.rows = Rows(layout, memory[:rows].reshape(num_envs, layout.size))
        steps = memory[rows : rows + num_envs * _STEP_FIELDS.itemsize].view(_STEP_FIELDS)
        self.actions, self.rewards, self.draw = steps["action"], steps["reward"], steps["draw"]
        self.terminated, self.truncated = steps["terminated"], steps["truncated"]
        self.has_answer = memory[-processes:]

    @staticmethod
    def size(layout: RowLayout, num_envs: int, processes: int) -> int:
        """Return the bytes of memory that the arrays need."""
        return num_envs * (layout.size + _STEP_FIELDS.itemsize) + processes


@dataclass(frozen=True)
class WorkerAssignment:
    """Names one env process's environments and its connections to the driver.

    ``tokens``, shared by a group, holds a byte for each of its processes less one: each reads one
    when it is done, and the last, which finds none, wakes the driver by a `DONE` in ``done``.
    """

    number: int
    group: int
    envs: range
    connection: Connection
    tokens: Connection
    done: Connection


@dataclass(frozen=True)
class WorkerSetup:
    """Holds all that the env processes of a vector have in common."""

    env_fn: EnvFactory
    layout: RowLayout
    num_envs: int
    processes: int
    memory: SharedBytes

    def open_arrays(self) -> SharedArrays:
        """Return views of the shared memory, with an array element for each env process."""
        return SharedArrays(self.layout, self.num_envs, self.processes, self.memory.array)


def run_worker(
    setup: WorkerSetup, assignment: WorkerAssignment, inherited: Sequence[Connection]
) -> None:
    """Run an env process until the driver closes the connection or ends.

    `inherited` are the driver's ends of connections, which a forked process has to close.
    """
    Thread(target=_end_after_driver, daemon=True).start()
    let_others_run_first()  # the driver, above all: it is about to wake other env processes
    for number in LEFT_TO_DRIVER:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, LEFT_TO_DRIVER)
    for connection in inherited:
        connection.close()
    worker = Worker(setup.env_fn, setup.open_arrays(), assignment)
    setup.memory.close()
    with suppress(ConnectionError, EOFError):
        worker.serve()
    worker.close()


def _end_after_driver() -> None:
    """Wait for the driver's end; then end a process that hangs in an environment."""
    if driver := parent_process():
        driver.join()
        Event().wait(_GRACE_S)
        os._exit(1)


class Worker:
    """Carries out the driver's commands in the environments of one assignment."""

    def __init__(
        self, env_fn: EnvFactory, arrays: SharedArrays, assignment: WorkerAssignment
    ) -> None:
        """Make the environments; an error of that is the answer to each command."""
        self._arrays, self._assignment = arrays, assignment
        self._envs: list[EnvRow] = []
        self._failure: BaseException | None = None
        try:
            for number in assignment.envs:
                self._envs.append(EnvRow(env_fn(), arrays.rows, number, number))
        except BaseException as error:  # noqa: BLE001 - sent to the driver, which raises it
            self._failure = error

    def serve(self) -> None:
        """Carry out commands until the connection ends; ConnectionError, EOFError in a command."""
        connection, tokens = self._assignment.connection, self._assignment.tokens.fileno()
        while command := os.read(connection.fileno(), 1):
            message = connection.recv() if command == MESSAGE else None
            if answer := self._failure or self._carry_out(message):
                _send_answer(connection, answer)
                self._arrays.has_answer[self._assignment.number] = 1
            try:
                os.read(tokens, 1)
            except BlockingIOError:  # no token is left: this is the group's last process
                done = DONE.pack(self._assignment.group, present_core())
                os.write(self._assignment.done.fileno(), done)

    def _carry_out(self, message: tuple[str, Any] | None) -> list[Any] | BaseException:
        """Carry out a message, or take a step; return states or ended episodes, or an error."""
        try:
            if message is None:
                return self._step()
            envs = zip(self._envs, self._assignment.envs, strict=True)
            return [state for env, number in envs for state in _obey(env, number, *message)]
        except BaseException as error:  # noqa: BLE001 - sent to the driver, which raises it
            return error

    def _step(self) -> list[EpisodeEnd]:
        """Step each environment; return the episodes that ended.

        All emulators run first, then Python computes all observations and rewards. That costs a
        quarter of alternating, since 24 emulated frames evict Python from the caches (measured).
        """
        arrays, numbers = self._arrays, self._assignment.envs
        own = slice(numbers.start, numbers.stop)
        for env, action in zip(self._envs, arrays.actions[own].tolist(), strict=True):
            env.start_step(action)
        draw = arrays.draw[own].tolist()
        results = [env.finish_step(drawn) for env, drawn in zip(self._envs, draw, strict=True)]
        arrays.rewards[own] = [result.reward for result in results]
        arrays.terminated[own] = [result.terminated for result in results]
        arrays.truncated[own] = [result.truncated for result in results]
        return [result.episode for result in results if result.episode is not None]

    def close(self) -> None:
        """End the environments."""
        for env in self._envs:
            env.close()


def _obey(env: EnvRow, number: int, command: str, value: Any) -> list[bytes]:
    """Carry out ("seeds", {env: seed}), ("load", {env: state}) or ("save", {}), which answers."""
    if command == "save":
        return [env.save()]
    if command == "seeds":
        env.reset(value[number])
    else:
        env.restore(value[number])
    return []


def _send_answer(connection: Connection, answer: list[Any] | BaseException) -> None:
    """Send states, ended episodes or an error: as text unless it is a DaddyError or OSError."""
    text = ""
    if isinstance(answer, BaseException):
        text = "".join(traceback.format_exception(answer))
    try:
        as_it_is = isinstance(answer, list | DaddyError | OSError)
        connection.send(answer if as_it_is else text)
    except ConnectionError:
        raise
    except Exception as error:  # noqa: BLE001 - of pickling, before anything was sent
        connection.send(text or f"the info of an episode's end cannot be pickled: {error!r}")
