"""Runs the supervisor process of a test cluster: starts all daemons, and ends them when it ends.

As a child subreaper it becomes the parent of detached processes. On SIGHUP it starts daemons that
ended; on SIGTERM it ends every process below it. If it is killed the kernel kills its daemons.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import processes, syscalls
from .layout import write_text
from .namespaces import Machine

GRACE_S = 2.0
BEFORE_S = 30.0
_LAST = ("slurmdbd", "mariadbd", "munged")


@dataclass(frozen=True)
class Daemon:
    """Describes a daemon: its command, and the conditions for starting the next one."""

    name: str
    argv: tuple[str, ...]
    socket: str = ""
    machine: str = ""
    """Name of the node it runs on; this host where that does not exist."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Additional variables."""
    address: tuple[str, int] | None = None
    """Address on which it must listen before the next daemon is started."""
    before: tuple[str, ...] = ()
    """A short command that is run to its end before this daemon is started."""


@dataclass
class Supervisor:
    """Starts and supervises daemons; ``serve`` returns when all processes have ended."""

    daemons: Sequence[Daemon]
    environment: Mapping[str, str]
    record: Path
    logs: Path
    machines: Mapping[str, Machine] = field(default_factory=dict)
    running: dict[str, processes.Process] = field(default_factory=dict)
    stop: bool = False
    repair: bool = True

    def serve(self) -> None:
        """Start the daemons, reap children, and on SIGTERM end all processes."""
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGHUP, self._on_hup)
        while not self.stop:
            if self.repair:
                self.repair = False
                self._start_missing()
            self._reap()
            time.sleep(0.1)
        self._end_all()

    def _on_term(self, *_: object) -> None:
        self.stop = True

    def _on_hup(self, *_: object) -> None:
        self.repair = True

    def _start_missing(self) -> None:
        for daemon in self.daemons:
            process = self.running.get(daemon.name)
            if self.stop or (process and processes.is_alive(process)):
                continue
            if daemon.socket:
                Path(daemon.socket).unlink(missing_ok=True)
            self._run_before(daemon)
            self.running[daemon.name] = self._start(daemon)
            self._write_record()
            self._await(daemon)

    def _run_before(self, daemon: Daemon) -> None:
        if daemon.before:
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    daemon.before,
                    env=dict(self.environment),
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    timeout=BEFORE_S,
                    check=False,
                )

    def _start(self, daemon: Daemon) -> processes.Process:
        with (self.logs / f"{daemon.name}.out").open("ab") as output:
            child = subprocess.Popen(
                daemon.argv,
                env={**self.environment, **daemon.environment},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=self._before(daemon),  # noqa: PLW1509 - this process has one thread
            )
        child.returncode = 0  # reaped below, not by subprocess
        return processes.identify(child.pid) or processes.Process(child.pid, 0)

    def _before(self, daemon: Daemon) -> Callable[[], None]:
        def prepare() -> None:
            if daemon.machine in self.machines:
                self.machines[daemon.machine].enter()
            os.setsid()
            syscalls.die_with_parent(signal.SIGKILL)

        return prepare

    def _await(self, daemon: Daemon) -> None:
        deadline = time.monotonic() + 10
        while not (self.stop or _listens(daemon)) and time.monotonic() < deadline:
            self._reap()
            time.sleep(0.01)

    def _write_record(self) -> None:
        rows = {name: [process.pid, process.start] for name, process in self.running.items()}
        write_text(self.record, json.dumps(rows) + "\n")

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def _end_all(self) -> None:
        """End all descendants, and last munged and the databases, on which the others depend."""
        last = [self.running[name] for name in _LAST if name in self.running]
        deadline = time.monotonic() + 15
        grace = GRACE_S
        while time.monotonic() < deadline:
            others = [child for child in processes.descendants(os.getpid()) if child not in last]
            if not others:
                break
            self._end(others, grace)
            grace = 0.0
        for process in last:
            self._end([process], GRACE_S)

    def _end(self, targets: Sequence[processes.Process], grace_s: float) -> None:
        for number, patience in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 2.0)):
            for process in targets:
                processes.send(process, number)
            deadline = time.monotonic() + patience
            while time.monotonic() < deadline and any(map(processes.is_alive, targets)):
                self._reap()
                time.sleep(0.02)
            self._reap()


def _listens(daemon: Daemon) -> bool:
    if daemon.socket:
        return Path(daemon.socket).exists()
    if daemon.address is None:
        return True
    try:
        socket.create_connection(daemon.address, timeout=1).close()
    except OSError:
        return False
    return True


def detach(work: Callable[[], None], log: Path) -> processes.Process:
    """Run ``work`` in a process that outlives this one; return that process."""
    read, write = os.pipe()
    first = os.fork()
    if first == 0:
        os.setsid()
        second = os.fork()
        if second:
            os.write(write, str(second).encode())
            os._exit(0)
        os.close(read)
        os.close(write)
        _run_detached(work, log)
    os.close(write)
    os.waitpid(first, 0)
    pid = int(os.read(read, 20) or b"0")
    os.close(read)
    return processes.identify(pid) or processes.Process(pid, 0)


def _run_detached(work: Callable[[], None], log: Path) -> None:
    """Run ``work`` with its output in ``log`` and exit the process."""
    code = 1
    try:
        os.umask(0o022)
        os.chdir("/")
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.closerange(3, 256)
        syscalls.become_subreaper()
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - outermost frame: log any error
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)
