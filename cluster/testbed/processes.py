"""Identifies, finds and ends processes by process id and start time, never by name.

A process belongs to a test cluster when the supervisor recorded it, when it descends from the
supervisor, when it runs in the test cluster's mount namespace, or when its environment has the test
cluster's variable.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MARK = "DADDY_TESTBED_NODE"
"""Variable in the environment of daemons and login sessions; env.sh does not set it."""
_MARK_BEFORE = "DADDY_SANDBOX_NODE"
"""The variable of the previous release's test clusters; read for one release."""


@dataclass(frozen=True)
class Process:
    """Identifies a process by id and start time, because ids are used again."""

    pid: int
    start: int
    """Clock ticks since boot."""


@dataclass(frozen=True)
class _Stat:
    parent: int
    start: int
    zombie: bool


def _stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return _Stat(int(fields[1]), int(fields[19]), fields[0] in "ZX")


def identify(pid: int) -> Process | None:
    """Return the running process with this id, or None."""
    stat = _stat(pid)
    return Process(pid, stat.start) if stat and not stat.zombie else None


def is_alive(process: Process) -> bool:
    """Return True while exactly this process runs."""
    return identify(process.pid) == process


def descendants(root: int) -> list[Process]:
    """Return the running processes below ``root`` in the process tree."""
    table = {pid: stat for pid in _pids() if (stat := _stat(pid))}
    below: set[int] = set()
    generation = {root}
    while generation:
        generation = {pid for pid, stat in table.items() if stat.parent in generation} - below
        below |= generation
    return [Process(pid, table[pid].start) for pid in sorted(below) if not table[pid].zombie]


def find_leftovers(root: Path, slurm_conf: str) -> list[Process]:
    """Return the processes of a test cluster whose supervisor is gone, except our ancestors."""
    own = _ancestry(os.getpid())
    return [
        process
        for pid in _pids()
        if pid not in own and _belongs(pid, root, slurm_conf) and (process := identify(pid))
    ]


def _belongs(pid: int, root: Path, slurm_conf: str) -> bool:
    users = root / "users" / "passwd"
    with contextlib.suppress(OSError):
        if os.path.samefile(f"/proc/{pid}/root/etc/passwd", users):
            return True
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    if any(f"{mark}={root}".encode() in environment for mark in (MARK, _MARK_BEFORE)):
        return True
    in_job = any(entry.startswith(b"SLURM_JOB_ID=") for entry in environment)
    return in_job and f"SLURM_CONF={slurm_conf}".encode() in environment


def end_processes(processes: Iterable[Process], grace_s: float) -> list[Process]:
    """Send SIGTERM, wait, send SIGKILL, wait; return the processes that still run."""
    left = [process for process in processes if is_alive(process)]
    for wanted, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        for process in left:
            send(process, wanted)
        deadline = time.monotonic() + patience_s
        while left and time.monotonic() < deadline:
            time.sleep(0.02)
            left = [process for process in left if is_alive(process)]
    return left


def send(process: Process, number: signal.Signals) -> None:
    """Send a signal to exactly this process, if it runs."""
    if is_alive(process):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _ancestry(pid: int) -> set[int]:
    ancestors: set[int] = set()
    while pid > 0 and pid not in ancestors:
        ancestors.add(pid)
        stat = _stat(pid)
        pid = stat.parent if stat else 0
    return ancestors
