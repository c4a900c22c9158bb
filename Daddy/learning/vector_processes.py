"""Runs N environments in processes of our own.

With as many groups as cores, each group has one process, which waits for no other. With fewer, each
group has a process for every core: while one group waits for its next actions, or for its slowest
process, the processes of the others use the cores. Both sides sleep while they wait; a connection
whose other end is gone ends the env process, and is an EnvProcessError in the driver.
"""

from __future__ import annotations

import atexit
import os
import pkgutil
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from multiprocessing import Pipe, current_process, forkserver, get_context, resource_tracker
from selectors import EVENT_READ, DefaultSelector
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from Daddy.core.host_and_processes import move_to_core
from Daddy.learning.interfaces import Transition
from Daddy.learning.vector_rows import EnvFactory, EnvProcessError, VectorEnv, row_layout
from Daddy.learning.vector_worker import (
    DONE,
    LEFT_TO_DRIVER,
    MESSAGE,
    STEP,
    SharedArrays,
    SharedBytes,
    WorkerAssignment,
    WorkerSetup,
    run_worker,
)

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from Daddy.learning.interfaces import Observations

Answer = list[Any] | BaseException | str
"""An env process's answer: episodes that ended or states, an error, or an error's text."""
_REPORT = "this is a bug: report it"
_CLOSE_S = 2.0
"""Seconds until env processes that do not end are killed."""
_ENTRY = "Daddy.learning.env_process_entry"
_LONG_TURN_S = 0.0005
"""Turn of the driver, from a group's results to its next actions, for which a move pays."""
_SILENCE_S = 120
"""Seconds without a result from any env process after which they count as hung."""


def start_method() -> str:
    """Return ``fork`` on Linux without threads or CUDA in use; else ``forkserver`` or ``spawn``.

    A forked process shares this one's memory. It would also inherit locks that other threads hold.
    """
    if sys.platform != "linux":
        return "spawn"
    torch = sys.modules.get("torch")
    threads = threading.active_count() > 1 or (torch and torch.cuda.is_initialized())
    return "forkserver" if threads else "fork"


class EnvProcesses:
    """Starts env processes, gives commands to one group of them at a time, and ends them."""

    def __init__(self, setup: WorkerSetup, groups: Sequence[Sequence[range]], method: str) -> None:
        """Start an env process by `method` for each range of environments in each of `groups`."""
        self.processes: list[Any] = []
        self._connections: list[Connection] = []
        self._groups: list[range] = []
        """Numbers of each group's env processes."""
        self._selector = DefaultSelector()
        self._done, done = Pipe(duplex=False)
        self._selector.register(self._done, EVENT_READ, None)
        self._tokens: list[Connection] = []
        self._has_answer = setup.open_arrays().has_answer
        self._answers: dict[int, Answer] = {}
        self._finished: deque[tuple[int, int]] = deque()
        """Groups that have finished their command, and the core of each one's last process."""
        self._start = _starter(setup, method)
        try:
            for group in groups:
                self._start_group(group, done)
        except BaseException:
            self.close()
            raise
        finally:
            setup.memory.close()
            done.close()

    def _start_group(self, members: Sequence[range], done: Connection) -> None:
        group, first = len(self._groups), len(self.processes)
        tokens, tokens_end = Pipe(duplex=False)
        os.set_blocking(tokens.fileno(), False)
        self._tokens.append(tokens_end)
        with tokens:
            for envs in members:
                ours, theirs = Pipe()
                number = len(self._connections)
                self._connections.append(ours)
                self._selector.register(ours, EVENT_READ, number)
                job = WorkerAssignment(number, group, envs, theirs, tokens, done)
                with theirs:
                    self.processes.append(self._start(job, [self._done, *self._connections]))
        self._groups.append(range(first, len(self.processes)))

    def send_messages(self, messages: Sequence[tuple[str, Any]]) -> list[Any]:
        """Send each env process its message (see `vector_worker`); return all answers, in order."""
        for group in range(len(self._groups)):
            self.start_command(group, MESSAGE, messages)
        answers = {}
        for _ in self._groups:
            group, _core = self.wait_for_group()
            answers[group] = self.answers(group)
        return [part for _, answer in sorted(answers.items()) for part in check_answers(answer)]

    def start_command(
        self, group: int, command: bytes, messages: Sequence[tuple[str, Any]] = ()
    ) -> None:
        """Start a command in the env processes of a group; the end of one is seen by the wait."""
        members = self._groups[group]
        with suppress(ConnectionError):
            if len(members) > 1:
                os.write(self._tokens[group].fileno(), command * (len(members) - 1))
            for number in members:
                os.write(self._connections[number].fileno(), command)
                if command == MESSAGE:
                    self._connections[number].send(messages[number])

    def wait_for_group(self) -> tuple[int, int]:
        """Sleep until a group has finished its command; return its number and a core it has left.

        Raises EnvProcessError if an env process ended, or if none finishes for two minutes. These
        are counted in seconds of waiting, because a suspended job's clock goes on.
        """
        silence = 0
        while not self._finished:
            events = self._selector.select(1.0)
            silence = 0 if events else silence + 1
            if silence:
                self._check_liveness()
            if silence == _SILENCE_S:
                raise EnvProcessError(f"no env process answered for {silence} s", "start again")
            for key, _ in events:
                if key.data is None:
                    self._finished.extend(DONE.iter_unpack(os.read(key.fd, 64 * DONE.size)))
                else:
                    self._receive(key.data)
        return self._finished.popleft()

    def _check_liveness(self) -> None:
        """Raise for a dead process whose connection a process that it forked holds open."""
        for process in self.processes:
            if not process.is_alive():
                raise _death(process)

    def _receive(self, number: int) -> None:
        """Store the answer of an env process; EnvProcessError if it has ended."""
        try:
            self._answers[number] = self._connections[number].recv()
        except (EOFError, OSError):  # the latter in the middle of an answer
            process = self.processes[number]
            process.join(_CLOSE_S)
            raise _death(process) from None
        except Exception as error:
            text = f"an answer of an env process cannot be unpickled: {error!r}"
            raise EnvProcessError(text, _REPORT) from error

    def answers(self, group: int) -> list[Answer]:
        """Return the answers that env processes of a group sent while they finished."""
        members = self._groups[group]
        answers = []
        answered = np.flatnonzero(self._has_answer[members.start : members.stop])
        for number in (members.start + answered).tolist():
            if number not in self._answers:
                self._receive(number)
            self._has_answer[number] = 0
            answers.append(self._answers.pop(number))
        return answers

    def close(self) -> None:
        """Close the connections, which ends the env processes; kill those alive after 2 s."""
        for ours in self._connections:
            _hang_up(ours)
        until = time.monotonic() + _CLOSE_S
        for process in self.processes:
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        self._selector.close()
        for ours in (self._done, *self._tokens, *self._connections):
            ours.close()
        self._connections.clear()


def check_answers(answers: Sequence[Answer]) -> list[Any]:
    """Return ended episodes or states in order of environments; raise the first error instead."""
    parts: list[Any] = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, str):
            raise EnvProcessError(f"an environment failed:\n{answer}", _REPORT)
        parts += answer
    return parts


def _death(process: Any) -> EnvProcessError:
    return EnvProcessError(
        f"env process {process.pid} ended with exit code {process.exitcode}",
        "start again: the learner continues from its checkpoint; "
        "if it recurs, look for the out-of-memory killer",
    )


def _hang_up(ours: Connection) -> None:
    """End a connection, also where another process that was forked here holds its end."""
    with suppress(OSError), socket.socket(fileno=os.dup(ours.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


class _WorkerFunction:
    """Is `run_worker`; unpickled in a spawned process, it prepares the imports first."""

    def __call__(self, *arguments: Any) -> None:
        run_worker(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return pkgutil.resolve_name, (f"{_ENTRY}:run_worker",)


def _starter(
    setup: WorkerSetup, method: str
) -> Callable[[WorkerAssignment, list[Connection]], Any]:
    """Return a function that starts an env process, with the stop signals blocked till it runs.

    Processes are spawned where the fork server cannot have its socket in the temporary folder.
    """
    context: Any = get_context(method)
    if method == "forkserver":
        module = getattr(getattr(setup.env_fn, "func", setup.env_fn), "__module__", "__main__")
        context.set_forkserver_preload([_ENTRY, module])
        try:
            with _stop_signals_blocked(method):
                _ensure_fork_server()
        except OSError:  # its socket's path is too long, or the disk is full
            return _starter(setup, "spawn")

    def start(assignment: WorkerAssignment, ours: list[Connection]) -> Any:
        inherited = ours if method == "fork" else []
        process = context.Process(target=_WorkerFunction(), args=(setup, assignment, inherited))
        with _stop_signals_blocked(method):
            process.start()
        return process

    return start


def _ensure_fork_server() -> None:
    """Start the fork server, unless it runs, and remove its socket from the temporary folder.

    A SIGKILL would leave it there. An open descriptor still leads to it. OSError: it has no place.
    """
    if sys.platform != "linux":
        forkserver.ensure_running()
        return
    settings: dict[str, Any] = getattr(current_process(), "_config")  # noqa: B009
    server: Any = getattr(forkserver, "_forkserver")  # noqa: B009
    before = settings.get("tempdir")
    with tempfile.TemporaryDirectory(prefix="daddy-") as folder:
        settings["tempdir"] = folder
        try:
            forkserver.ensure_running()
        finally:
            settings["tempdir"] = before
        address = str(server._forkserver_address)  # noqa: SLF001
        if address.startswith(folder):
            socket_file = os.open(address, os.O_PATH)
            server._forkserver_address = f"/proc/self/fd/{socket_file}"  # noqa: SLF001


@contextmanager
def _stop_signals_blocked(method: str) -> Iterator[None]:
    """Block the signals that stop a job; a process that is started meanwhile begins so."""
    if method != "fork":
        resource_tracker.ensure_running()  # it starts with the first process, and unblocks signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, LEFT_TO_DRIVER)
    try:
        with warnings.catch_warnings():  # of a fork beside the threads of a numerical library
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class ProcessVector(VectorEnv):
    """Runs N environments; each group has one or `processes` env processes of its own."""

    def __init__(
        self,
        env_fn: EnvFactory,
        num_envs: int,
        processes: int,
        groups: int = 1,
        context: str | None = None,
    ) -> None:
        """Make one environment in this process to read its spaces, `num_envs` in env processes.

        `processes` play at a time. `context` is multiprocessing's start method, by default
        `start_method()`.
        """
        probe: Any = env_fn()
        super().__init__(row_layout(probe), num_envs, groups)
        probe.close()
        per_group = processes if len(self.groups) < processes else 1
        parts = [_split(group, per_group) for group in self.groups]
        self._parts = list(chain.from_iterable(parts))
        count = len(self._parts)
        memory = SharedBytes(SharedArrays.size(self._layout, num_envs, count))
        setup = WorkerSetup(env_fn, self._layout, num_envs, count, memory)
        self._arrays = setup.open_arrays()
        self._processes = EnvProcesses(setup, parts, context or start_method())
        self._alone = count == len(parts)
        """True if each group has one process."""
        self._received, self._turn_s = time.monotonic(), 0.0
        self._requested = np.zeros(num_envs, bool)
        self._pictured = np.zeros(num_envs, bool)
        atexit.register(self.close)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the env processes."""
        return tuple(process.pid for process in self._processes.processes)

    def reset(self, seeds: Sequence[int]) -> Observations:
        self._send_to_all("seeds", [int(seed) for seed in seeds])
        return self._observations()

    def send(self, group: int, actions: NDArray[np.integer[Any]]) -> None:
        members = self.groups[group]
        np.copyto(self._arrays.actions[members], actions, casting="same_kind")  # refuses floats
        self._arrays.draw[members] = self._requested[members]
        self._processes.start_command(group, STEP)
        self._turn_s = time.monotonic() - self._received

    def recv(self) -> tuple[int, Transition]:
        """Wait for a group's step and return it; EnvProcessError if a process ended or hangs."""
        group, core = self._processes.wait_for_group()
        if self._alone and self._turn_s > _LONG_TURN_S:
            move_to_core(core)  # else we may take the other group's, while this one is idle
        self._received = time.monotonic()
        ended = check_answers(self._processes.answers(group))
        members, arrays = self.groups[group], self._arrays
        self._pictured[members] = arrays.draw[members]
        return group, Transition(
            {key: column[members] for key, column in arrays.rows.observations.items()},
            arrays.rewards[members].copy(),
            arrays.terminated[members].copy(),
            arrays.truncated[members].copy(),
            ended,
        )

    def telemetry(self) -> NDArray[np.float32]:
        return self._arrays.rows.telemetry.copy()

    def request_pictures(self, agents: frozenset[int]) -> None:
        self._requested[:] = False
        self._requested[[agent for agent in agents if agent < self.num_envs]] = True

    def pictures(self) -> dict[int, bytes]:
        pictures = self._arrays.rows.pictures
        return {i: pictures[i].tobytes() for i in np.flatnonzero(self._pictured).tolist()}

    def save_states(self) -> list[bytes]:
        states: list[bytes] = self._send_to_all("save", ())
        return states

    def load_states(self, states: list[bytes]) -> Observations:
        self._send_to_all("load", states)
        return self._observations()

    def close(self) -> None:
        """End the env processes."""
        atexit.unregister(self.close)
        self._processes.close()

    def _send_to_all(self, command: str, values: Sequence[object]) -> list[Any]:
        """Give each env process a command and the values of its environments, if there are any."""
        own = [{env: values[env] for env in part if values} for part in self._parts]
        return self._processes.send_messages([(command, part) for part in own])

    def _observations(self) -> Observations:
        return {key: column.copy() for key, column in self._arrays.rows.observations.items()}


def _split(group: slice, processes: int) -> list[range]:
    """Split a group's environments over `processes` env processes, fewer for a small group."""
    size = -(-(group.stop - group.start) // processes)
    starts = range(group.start, group.stop, size)
    return [range(first, min(first + size, group.stop)) for first in starts]
