"""Adapter for the processes of one command: starts them, watches them and tells how they ended."""

from __future__ import annotations

import os
import resource
import select
import signal
import struct
import time
from typing import Any

from . import kernel, launch, namespaces

_MOST_LOST = 64 << 20
"""Bytes of output over the limit after which a command is killed."""
_CHUNK = 64 * 1024
_STREAMS = ("stdout", "stderr", "result")


class SetupError(Exception):
    """A command could not be confined, so it did not run."""


class CommandRun:
    """One command from start to outcome."""

    def __init__(self, runner: Any, limits: dict[str, Any], lines: bool) -> None:
        self.runner, self.channel = runner, runner.channel
        self.limits, self.lines = limits, lines
        self.seen = dict.fromkeys(_STREAMS, 0)
        self.ending = "exited"
        self.status: int | None = None
        self.usage: Any = None
        self.peak = 0

    def run(self, specification: int, given: int) -> dict[str, Any]:
        """Run it to its end and return the outcome."""
        began = time.monotonic()
        streams = {name: os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) for name in _STREAMS}
        report = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.pid = kernel.clone_into(kernel.NEW_PIDS | kernel.NEW_MOUNTS | kernel.NEW_IPC)
        if not self.pid:
            self._child(specification, [given, *(w for _, w in streams.values())], report[1])
        for _, writable in [*streams.values(), report]:
            os.close(writable)
        self.pipes = {readable: name for name, (readable, _) in streams.items()}
        try:
            self._watch(began + self.limits["time_s"])
            told = os.read(report[0], 4096)
        finally:
            for readable in [*self.pipes, report[0]]:
                os.close(readable)
        return self._outcome(told, time.monotonic() - began)

    def _child(self, specification: int, descriptors: list[int], report: int) -> None:
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            namespaces.mount_scratch(self.limits["scratch_mb"], self.limits["scratch_files"])
            namespaces.mount_processes()
            kernel.drop_capabilities()
            pid = os.fork()
            if not pid:
                for descriptor in descriptors:
                    os.set_blocking(descriptor, True)
                os.setsid()
                launch.become_command(
                    specification, descriptors, self._rlimits(), self.runner.program
                )
            os.write(report, struct.pack("=i", _reap_until(pid)))
        except BaseException as error:  # noqa: BLE001
            os.write(report, repr(error).encode()[:500])
        os._exit(0)

    def _rlimits(self) -> dict[str, int]:
        limits = self.limits
        return {
            "DATA": limits["memory_mb"] << 20,
            "NPROC": limits["processes"] + 3,
            "NOFILE": limits["open_files"],
            "FSIZE": limits["scratch_mb"] << 20,
            "CORE": 0,
            "MEMLOCK": 0,
            "MSGQUEUE": 0,
            "SIGPENDING": 256,
        }

    def _watch(self, deadline: float) -> None:
        poller = select.poll()
        for pipe in [*self.pipes, self.runner.wake, self.channel.requests]:
            poller.register(pipe, select.POLLIN)
        open_pipes = set(self.pipes)
        while self.status is None:
            left = deadline - time.monotonic()
            if left <= 0:
                self._kill("timed out")
            for pipe, _ in poller.poll(max(left, 0.0) * 1000 if self.ending == "exited" else None):
                if pipe in open_pipes and not self._take(pipe):
                    poller.unregister(pipe)
                    open_pipes.discard(pipe)
                elif pipe == self.runner.wake:
                    self._reap()
        for pipe in open_pipes:
            self._take(pipe)

    def _take(self, pipe: int) -> int:
        name = self.pipes[pipe]
        keep = max(0, self.limits["output_bytes"] - self.seen[name])
        if self.lines and name == "stdout":
            keep = _CHUNK
        try:
            got = self.channel.put_from(pipe, name, keep)
        except BlockingIOError:
            return 1
        self.channel.write_out()
        self.seen[name] += got
        if self._lost() > _MOST_LOST:
            self._kill("too much output")
        return got

    def _lost(self) -> int:
        return sum(max(0, seen - self.limits["output_bytes"]) for seen in self.seen.values())

    def _kill(self, ending: str) -> None:
        if self.ending == "exited":
            self.ending = ending
            os.kill(self.pid, signal.SIGKILL)

    def _reap(self) -> None:
        os.read(self.runner.wake, 4096)
        pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        if pid:
            self.status, self.usage = status, usage

    def _outcome(self, told: bytes, seconds: float) -> dict[str, Any]:
        if len(told) not in (0, 4):
            return {"broken": told.decode(errors="replace")}
        status = struct.unpack("=i", told)[0] if told else signal.SIGKILL
        return {
            "ending": self.ending,
            "exit_code": -9 if self.ending != "exited" else _exit_code(status),
            "lost_bytes": self._lost(),
            "seconds": seconds,
            "cpu_seconds": self.usage.ru_utime + self.usage.ru_stime,
            "peak_mb": self.peak >> 20,
        }


def _reap_until(pid: int) -> int:
    """Wait for all children that end, as the first process of a namespace must, until `pid`."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            return status


def _exit_code(status: int) -> int:
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
