"""Entry: the program inside a sandbox, which runs commands for its host.

Modes: in a fresh sandbox each command has namespaces of its own. In a persistent one all share
those of the runner, which then is their init process: what a command starts lives on until the
sandbox ends. Mode plain confines nothing: a container does, or nobody.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import select
import signal
import sys
import time

from . import archive, become_command, kernel, layer, namespaces, syscall_filter
from .command_run import CORES, CommandRun, end_all_others, reap_children
from .host_channel import HostChannel, HostGoneError
from .memory_use import MemoryUse, next_look_s

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

_FIRST_FREE = 10
"""Descriptors below are for commands."""
_OVERHEAD = 3
"""Processes of the sandbox itself: bubblewrap's, the runner, the command's init process."""
_SCRATCH_MB, _SCRATCH_FILES = 16, 2000
_LONGEST_IDLE_S = 1.0
_END_S, _END_ALL_S = 0.02, 10.0


class Runner:
    """Serves one host. `settings` are those of the host's `RunnerSettings`.

    `folder` is a descriptor: of the put files, or of a writable root's tmpfs.
    """

    def __init__(
        self, settings: dict[str, Any], pipes: tuple[int, int], folder: int, program: bytes | None
    ) -> None:
        self._mode, self._folder = settings["mode"], folder
        self._shown, self._overlaid = settings["shown"], settings["overlaid"]
        self._on_disk = settings.get("on_disk", False)
        self._count_processes = settings["count_processes"]
        self._confines = self._mode != "plain"
        self._filter = program
        self._limits: dict[str, Any] = {}
        self._run: CommandRun | None = None
        self._wake = _wake_on_child_end()
        self._channel = HostChannel(*pipes, self._wait)

    def serve(self) -> NoReturn:
        """Serve until the host closes its end."""
        missing = [] if self._filter or not self._confines else ["seccomp: no call is refused"]
        self._channel.write_out({"ready": 1, "missing": missing})
        answers = {
            "run": self._answer_run,
            "put": self._answer_put,
            "get": self._answer_get,
            "save": self._answer_save,
            "restore": self._answer_restore,
        }
        while True:
            request = self._channel.read_header()
            if request["do"] == "stop":  # it crossed the outcome of its command
                continue
            self._limits = request["limits"]
            try:
                reply = answers[request["do"]](request)
            except OSError as error:
                reply = {"broken": f"broken: {error!r}"}
            self._channel.write_out(reply)
            self._channel.wipe()

    def _answer_run(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._file(request["command"]) as command, self._file(request["stdin"]) as given:
            limits = self._rlimits()

            def body(descriptors: list[int]) -> None:
                become_command.replace_process(command, descriptors, limits, self._filter)

            return self._watch(body, given, lines=request["lines"], fresh=self._mode == "fresh")

    def _answer_put(self, request: dict[str, Any]) -> dict[str, Any]:
        target = request["target"]
        if self._mode == "fresh":
            target = target[len(namespaces.FILES) :]

        def body(descriptors: list[int]) -> None:
            root = self._folder if self._mode == "fresh" else os.open("/", os.O_RDONLY)
            become_command.confine([*descriptors, root], {"CORE": 0}, self._filter)
            archive.unpack(len(descriptors), target)

        return self._take_stream(body)

    def _take_stream(self, body: Callable[[list[int]], None]) -> dict[str, Any]:
        """Give `body` the stream that comes in parts; the last is 0, or -1 if the host gave up."""
        readable, writable = os.pipe()
        os.set_blocking(writable, False)

        def send_input() -> None:
            os.close(readable)
            while (count := self._channel.read_header()["part"]) > 0:
                self._channel.copy_to(writable, count)
            os.close(writable)

        return self._watch(body, readable, send_input=send_input)

    def _answer_get(self, request: dict[str, Any]) -> dict[str, Any]:
        def body(descriptors: list[int]) -> None:
            become_command.confine(descriptors, {"CORE": 0}, self._filter)
            archive.pack(request["source"], regular_only=request["regular_only"])

        with self._file(0) as nothing:
            return self._watch(body, nothing)

    def _answer_save(self, request: dict[str, Any]) -> dict[str, Any]:
        """Give the changes in a writable root, after the end of all processes."""
        del request
        deadline = time.monotonic() + _END_ALL_S
        while any(pid != 1 for pid in _processes()):
            if time.monotonic() > deadline:  # they fork faster than they are found
                return {"broken": f"processes go on after {_END_ALL_S:g} s of kills"}
            end_all_others()
            select.select([self._wake], [], [], _END_S)
            reap_children(self._wake)

        def body(descriptors: list[int]) -> None:
            become_command.confine([*descriptors, self._folder], {"CORE": 0}, self._filter)
            layer.save(len(descriptors), self._shown, self._overlaid)

        with self._file(0) as nothing:
            return self._watch(body, nothing)

    def _answer_restore(self, request: dict[str, Any]) -> dict[str, Any]:
        def body(descriptors: list[int]) -> None:
            become_command.confine(descriptors, {"CORE": 0}, self._filter)
            paths = [request[name] for name in ("only", "without", "unlinked")]
            layer.restore(*paths, readable=request["readable"])

        return self._take_stream(body)

    def _watch(
        self,
        body: Callable[[list[int]], None],
        given: int,
        *,
        lines: bool = False,
        fresh: bool = False,
        send_input: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        if self._mode == "persistent" and not self._on_disk:
            with contextlib.suppress(OSError):  # more than that is in use
                namespaces.resize_scratch(self._limits["scratch_mb"], self._limits["scratch_files"])
        run = CommandRun(self._channel, self._wake, self._limits, fresh=fresh, lines=lines)
        run.start(body, given, confined=self._confines)
        run.memory = self._memory(run.pid, fresh=fresh)
        self._run = run
        try:
            if send_input:
                send_input()
            return run.watch(count=self._count_processes)
        finally:
            self._run = None

    def _memory(self, pid: int, *, fresh: bool) -> MemoryUse:
        if self._mode == "plain":
            return MemoryUse(lambda: _session_of(pid))
        own = {1, os.getpid(), pid if fresh else 1}
        scratch = f"/proc/{pid}/root/tmp" if fresh else "/tmp"  # noqa: S108
        if self._on_disk:
            scratch = "/proc"  # takes none
        return MemoryUse(lambda: [found for found in _processes() if found not in own], scratch)

    def _rlimits(self) -> dict[str, int]:
        limits = self._limits
        found = {
            "DATA": limits["memory_mb"] << 20,
            "NOFILE": limits["open_files"],
            "FSIZE": limits["scratch_mb"] << 20,
            "CORE": 0,
            "MEMLOCK": 0,
            "MSGQUEUE": 0,
            "SIGPENDING": 256,
        }
        if self._mode == "plain":
            return {name: found[name] for name in ("DATA", "NOFILE", "CORE")}
        counted = {} if self._count_processes else {"NPROC": limits["processes"] + _OVERHEAD}
        return {**found, **counted}

    @contextlib.contextmanager
    def _file(self, count: int) -> Iterator[int]:
        """Give a file with the next `count` bytes of the request, which nobody can write to."""
        file = os.open("/dev/null", os.O_RDONLY) if not count else _memory_file()
        try:
            if count:
                self._channel.copy_to(file, count)
                os.lseek(file, 0, os.SEEK_SET)
                _seal(file)
            yield file
        finally:
            os.close(file)

    def _wait(self, descriptor: int, event: int) -> None:
        """Wait for an event of poll(2); meanwhile commands are reaped and watched."""
        poller = select.poll()
        poller.register(descriptor, event)
        poller.register(self._wake, select.POLLIN)
        while True:
            wait_s = self._run.check() if self._run else self._check_idle()
            ready = dict(poller.poll(None if wait_s is None else wait_s * 1000))
            if self._wake in ready:
                self._reap()
            if descriptor in ready:
                return

    def _reap(self) -> None:
        if self._run:
            self._run.reap()
        else:
            reap_children(self._wake)

    def _check_idle(self) -> float | None:
        """End all processes of a persistent sandbox that grow over its last limit."""
        if self._mode != "persistent" or not self._limits:
            return None
        limit = self._limits["memory_mb"] << 20
        used, processes = self._memory(1, fresh=False).measure(limit)
        if used > limit:
            end_all_others()
        return next_look_s(used, limit, CORES, _LONGEST_IDLE_S) if processes else None


def _processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208


def _session_of(leader: int) -> Iterator[int]:
    """Yield the processes of a session; none on a system without /proc."""
    with contextlib.suppress(FileNotFoundError):
        for pid in _processes():
            with contextlib.suppress(OSError):
                if os.getsid(pid) == leader:
                    yield pid


def _memory_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("input", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    import tempfile  # not on Linux

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _seal(file: int) -> None:
    if hasattr(fcntl, "F_ADD_SEALS"):
        seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)


def _take_descriptors() -> tuple[int, int]:
    """Move the pipes to the host away from 0 and 1; then all of 0 to 3 are open elsewhere."""
    pipes = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE) for number in (0, 1)]
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 3):
        os.dup2(null, number)
    return pipes[0], pipes[1]


def _wake_on_child_end() -> int:
    """Return a pipe that becomes readable when a child ends."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    return readable


def _enter_persistent_namespaces(shown: list[str], overlaid: list[str]) -> int:
    """Return in the init process of new namespaces; the caller waits for it and ends with it.

    With paths to show or overlay it has a writable root, and what is returned is its descriptor.
    Commands cannot interrupt it: a signal without a handler does nothing to an init process.
    """
    pid = kernel.clone_into(kernel.NEW_PIDS | kernel.NEW_MOUNTS | kernel.NEW_IPC)
    if pid:
        os.closerange(_FIRST_FREE, 64)
        os.waitpid(pid, 0)
        os._exit(1)
    kernel.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if overlaid:
        return namespaces.enter_writable_root(shown, overlaid, _SCRATCH_MB, _SCRATCH_FILES)
    namespaces.mount_scratch(_SCRATCH_MB, _SCRATCH_FILES)
    namespaces.mount_processes(hide=True)
    return -1


def main() -> None:
    """Serve the host on standard input and output; the settings are the last argument.

    The alarm ends the runner also when nobody reads what it writes; bubblewrap ends with it.
    """
    settings = json.loads(sys.argv.pop())
    pipes = _take_descriptors()
    signal.setitimer(signal.ITIMER_REAL, settings["lifetime_s"])
    kernel.die_with_parent()
    folder, program = -1, None
    if settings["mode"] != "plain":
        folder, program = _prepare(settings)
    _forget_start()
    with contextlib.suppress(HostGoneError):
        Runner(settings, pipes, folder, program).serve()
    os._exit(0)


def _prepare(settings: dict[str, Any]) -> tuple[int, bytes | None]:
    """Take what commands never need from this process, which they are copies of.

    Return the descriptor of put files, or of a writable root's tmpfs, and the seccomp program that
    is left to commands.
    """
    kernel.set_open_to_others(is_open=False)
    settings["on_disk"] = os.path.isdir(namespaces.STORE)  # noqa: PTH112
    folder = namespaces.prepare_mounts()
    if settings["mode"] == "persistent":
        readable = [path for path in settings["overlaid"] if os.access(path, os.R_OK | os.X_OK)]
        settings["overlaid"] = readable  # not /root of an image that root made
        folder = _enter_persistent_namespaces(settings["shown"], settings["overlaid"])
        if settings["overlaid"]:
            import tarfile  # noqa: F401 - each copy of this process would load it
    kernel.run_soon()
    kernel.forbid_new_rights()
    programs = syscall_filter.build_filters(os.uname().machine)
    if not programs:
        return folder, None
    kernel.enter_filter(programs[0])
    return folder, programs[1]


def _forget_start() -> None:
    """Make this process what a command expects of a new interpreter, and cheap to copy."""
    for name in [name for name in sys.modules if name.partition(".")[0] == __package__]:
        del sys.modules[name]
    os.environ.clear()
    os.environ.update(become_command.ENVIRONMENT)
    compile("pass", "<command>", "exec")  # makes types that else each copy would make
    gc.collect()
    gc.freeze()
    gc.disable()
