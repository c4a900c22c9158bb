"""Adapter for the processes of one command: starts them, watches them and tells how they ended.

In a fresh sandbox a command has an init process, the first of new namespaces: when it ends, the
kernel ends all others in them. Else a command leads a session of its own.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import contextlib
import os
import select
import signal
import struct
import time

from . import kernel, namespaces
from .host_channel import HostChannel
from .memory_use import INCOMPLETE_S, MemoryUse, next_look_s

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

_MOST_LOST = 64 << 20
"""Bytes of output over the limit after which a command is killed."""
_CHUNK_BYTES = 64 * 1024
_STREAMS = ("stdout", "stderr", "fd3_output")
_NEW = kernel.NEW_PIDS | kernel.NEW_MOUNTS | kernel.NEW_IPC
_NICE = 10
"""Niceness of commands: else the runner would have to wait for a core while they take memory."""
CORES = os.cpu_count() or 1


class CommandRun:
    """One command from its start to its outcome."""

    def __init__(
        self, channel: HostChannel, wake: int, limits: dict[str, Any], *, fresh: bool, lines: bool
    ) -> None:
        self._channel, self._wake, self._limits = channel, wake, limits
        self._fresh, self._lines, self._count = fresh, lines, False
        self.memory: MemoryUse
        self._seen = dict.fromkeys(_STREAMS, 0)
        self._ending, self._peak, self._cpu_seconds = "exited", 0, 0.0
        self._status: int | None = None

    def start(self, body: Callable[[list[int]], None], given: int, *, confined: bool) -> None:
        """Start it in a process of its own, with `given` as its standard input.

        There `body` gets the descriptors of input, outputs and result; `confined` processes have
        lost their capabilities by then.
        """
        self._began = time.monotonic()
        self._deadline = self._began + self._limits["time_s"]
        pipes = [os.pipe() for _ in (*_STREAMS, "report")]
        descriptors = [given, *(writable for _, writable in pipes)]
        self.pid = kernel.clone_into(_NEW) if self._fresh else os.fork()
        if not self.pid:
            self._live(body, descriptors, confined=confined)
        for readable, writable in pipes:
            os.close(writable)
            os.set_blocking(readable, False)
        self._report = pipes[-1][0]
        self._pipes = {pipes[at][0]: name for at, name in enumerate(_STREAMS)}
        self._open = set(self._pipes)
        limit = self._limits["memory_mb"] << 20
        self._look_at = self._began + next_look_s(0, limit, CORES, INCOMPLETE_S)

    def _live(
        self, body: Callable[[list[int]], None], descriptors: list[int], *, confined: bool
    ) -> NoReturn:
        """Be the init process of the command, or the command itself."""
        report = descriptors.pop()
        try:
            _reset_signals()
            kernel.die_with_parent()
            os.nice(_NICE)
            if self._fresh:
                namespaces.mount_scratch(self._limits["scratch_mb"], self._limits["scratch_files"])
                namespaces.mount_processes()
            if confined:
                kernel.drop_capabilities()
            if self._fresh:
                pid = os.fork()
                if pid:
                    os.write(report, struct.pack("=i", _reap_until(pid)))
                    os._exit(0)
            os.setsid()
            body(descriptors)
        except BaseException as error:  # noqa: BLE001 - whatever it is, nothing ran unconfined
            with contextlib.suppress(OSError):
                os.write(report, f"broken: {error!r}".encode()[:500])
        finally:
            os._exit(1)

    def watch(self, *, count: bool) -> dict[str, Any]:
        """Watch it to its end and return the outcome; `count` its processes, too."""
        self._count = count
        try:
            while self._status is None:
                self._step()
            for pipe in self._open:
                self._finish(pipe)
            with contextlib.suppress(BlockingIOError):
                return self._outcome(os.read(self._report, 1024))
            return self._outcome(b"")
        finally:
            for pipe in (*self._pipes, self._report):
                os.close(pipe)
            self._pipes = {}

    def _step(self) -> None:
        if self._channel.is_waiting:
            self._stop()
        poller = select.poll()
        poller.register(self._wake, select.POLLIN)
        poller.register(self._channel.requests, select.POLLIN)
        if self._channel.is_pending:
            poller.register(self._channel.replies, select.POLLOUT)
        else:
            for pipe in self._open:
                poller.register(pipe, select.POLLIN)
        for descriptor, _ in poller.poll(self.check() * 1000):
            self._handle(descriptor)

    def _handle(self, descriptor: int) -> None:
        if descriptor == self._wake:
            self.reap()
        elif descriptor == self._channel.requests:
            self._stop()
        elif descriptor == self._channel.replies:
            self._channel.write_some()
        elif not self._channel.is_pending and not self._take(descriptor):
            self._open.discard(descriptor)

    def _stop(self) -> None:
        """Take the only request that comes while a command runs: to stop it."""
        self._channel.read_header()
        self._kill("timed out")

    def check(self) -> float:
        """Kill it if it is over its time or memory. Return the seconds until the next check."""
        if self._ending == "exited" and time.monotonic() >= self._deadline:
            self._kill("timed out")
        if self._ending == "exited" and time.monotonic() >= self._look_at:
            self._look()
        if self._ending != "exited":
            return 1.0
        wait_s: float = min(self._deadline, self._look_at) - time.monotonic()  # a look takes long
        return max(wait_s, 0.0)

    def _look(self) -> None:
        limit = self._limits["memory_mb"] << 20
        used, processes = self.memory.measure(limit)
        self._peak = max(self._peak, min(used, 2 * limit))
        if used > limit:
            self._kill("out of memory")
            end_all_others()
        elif self._count and processes > self._limits["processes"]:
            self.end_processes()
        longest_s = INCOMPLETE_S if self._count else self.memory.longest_s
        self._look_at = time.monotonic() + next_look_s(used, limit, CORES, longest_s)

    def _kill(self, ending: str) -> None:
        if self._ending == "exited":
            self._ending = ending
            self.end_processes()

    def end_processes(self) -> None:
        """Kill the command: all of it in a fresh sandbox, else its session's first group."""
        if self._status is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)
            if not self._fresh:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)

    def reap(self) -> None:
        """Take the exits of children."""
        for pid, status, usage in reap_children(self._wake):
            if pid == self.pid:
                self._status, self._cpu_seconds = status, usage.ru_utime + usage.ru_stime

    def _take(self, pipe: int) -> bool:
        """Pass on what waits in a pipe, up to its bound. Return False at its end."""
        name, bound = self._pipes[pipe], self._limits["output_bytes"]
        keep = _CHUNK_BYTES if self._lines and name == "stdout" else bound - self._seen[name]
        try:
            got = self._channel.put_from(pipe, name, max(0, keep))
        except BlockingIOError:
            return True
        self._seen[name] += got
        if self._lost() > _MOST_LOST:
            self._kill("too much output")
        return got > 0

    def _finish(self, pipe: int) -> None:
        """Take what a command left in a pipe: as much as fits into one."""
        self._channel.flush()
        self._take(pipe)

    def _lost(self) -> int:
        return sum(max(0, seen - self._limits["output_bytes"]) for seen in self._seen.values())

    def _outcome(self, report: bytes) -> dict[str, Any]:
        if report.startswith(b"broken"):
            return {"broken": report.decode(errors="replace")}
        status: Any = self._status
        if self._fresh:
            status = struct.unpack("=i", report)[0] if report else signal.SIGKILL
        killed = self._ending != "exited"
        return {
            "ending": self._ending,
            "exit_code": -signal.SIGKILL if killed else _exit_code(status),
            "lost_bytes": self._lost(),
            "seconds": time.monotonic() - self._began,
            "cpu_seconds": self._cpu_seconds,
            "peak_mb": self._peak >> 20,
        }


def end_all_others() -> None:
    """Kill all processes of a persistent sandbox but its init process, which alone may do so."""
    if os.getpid() == 1:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)


def reap_children(wake: int) -> list[tuple[int, int, Any]]:
    """Return the exit of every child that ended, so that no zombie is left; empties `wake`."""
    with contextlib.suppress(BlockingIOError):
        os.read(wake, 4096)
    found = []
    with contextlib.suppress(ChildProcessError):
        while (ended := os.wait4(-1, os.WNOHANG))[0]:
            found.append(ended)
    return found


def _reset_signals() -> None:
    """Take back all handlers, without which no signal from inside hurts an init process.

    The module signal would take longer: it makes enumerations.
    """
    _signal.set_wakeup_fd(-1)
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def _reap_until(pid: int) -> int:
    """Wait for all children that end, as the first process of a namespace must, until `pid`."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            return status


def _exit_code(status: int) -> int:
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
