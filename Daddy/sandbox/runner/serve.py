"""Entry: the program inside a sandbox. Takes requests of the host and runs commands for them."""

from __future__ import annotations

import gc
import os
import signal
import sys
import fcntl
import json
import platform
from typing import Any

from . import kernel, namespaces, syscall_filter
from .host_channel import HostChannel, HostGoneError
from .run_command_inside import CommandRun

FIRST_FREE = 10


class Runner:
    """Serves one host. `settings`: ``mode`` (fresh, persistent, plain), ``lifetime_s``."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.mode = settings["mode"]
        self.program = (
            None if self.mode == "plain" else syscall_filter.build_filter(platform.machine())
        )
        requests, replies = _take_descriptors()
        self.wake = _wake_on_child_end()
        self.channel = HostChannel(requests, replies, self._idle)
        self.files = namespaces.prepare_mounts() if self.mode == "fresh" else -1

    def serve(self) -> None:
        """Serve until the host closes its end."""
        missing = [] if self.program or self.mode == "plain" else ["seccomp"]
        self._reply({"ready": 1, "missing": missing})
        while True:
            request = self.channel.read_header()
            self._reply(self._run(request))
            self.channel.wipe()

    def _reply(self, reply: dict[str, Any]) -> None:
        self.channel.put(reply)
        self.channel.write_out()

    def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        specification = self._file(request["specification"])
        given = self._file(request["stdin"])
        try:
            return CommandRun(self, request["limits"], bool(request.get("lines"))).run(
                specification, given
            )
        finally:
            os.close(specification)
            os.close(given)

    def _file(self, count: int) -> int:
        """Return a sealed file with the next `count` bytes of the request."""
        if not count:
            return os.open("/dev/null", os.O_RDONLY)
        file = os.memfd_create("input", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.channel.copy_to(file, count)
        os.lseek(file, 0, os.SEEK_SET)
        seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
        return file

    def _idle(self) -> float | None:
        return None


def _take_descriptors() -> tuple[int, int]:
    """Move the pipes to the host away from 0 and 1; all of 0 to 3 become /dev/null."""
    pipes = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE) for number in (0, 1)]
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 3):
        os.dup2(null, number)
    return pipes[0], pipes[1]


def _wake_on_child_end() -> int:
    """Return a pipe that becomes readable when a child ends."""
    readable, writable = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    return readable


def main() -> None:
    """Serve the host on standard input and output; the settings are the last argument."""
    settings = json.loads(sys.argv[-1])
    sys.argv[:] = sys.argv[:1]
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, settings["lifetime_s"])
    kernel.die_with_parent()
    kernel.hide_memory()
    runner = Runner(settings)
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        runner.serve()
    except HostGoneError:
        os._exit(0)
