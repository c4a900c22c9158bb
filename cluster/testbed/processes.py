"""Processes by pid and start time: alive, descending, left over, ended.

Nothing is ever ended by name. A process counts as ours when we started it and recorded it, when it
descends from the supervisor, when it lives in the test cluster's own mount namespace, or when its
environment carries this test cluster's mark.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MARK = "DADDY_TESTBED_NODE"
"""In the environment of daemons and login sessions only, never in a shell that sourced env.sh."""
_MARK_BEFORE = "DADDY_SANDBOX_NODE"
"""The same of a test cluster that the release before started, for one release."""


@dataclass(frozen=True)
class Process:
    """A process that cannot be mistaken for a later one with the same id."""

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
    """The live process with this id."""
    stat = _stat(pid)
    return Process(pid, stat.start) if stat and not stat.zombie else None


def alive(process: Process) -> bool:
    """Whether exactly this process still runs."""
    return identify(process.pid) == process


def descendants(root: int) -> list[Process]:
    """Live processes below ``root``, whoever adopted them on the way."""
    table = {pid: stat for pid in _pids() if (stat := _stat(pid))}
    below: set[int] = set()
    grown = {root}
    while grown:
        grown = {pid for pid, stat in table.items() if stat.parent in grown} - below
        below |= grown
    return [Process(pid, table[pid].start) for pid in sorted(below) if not table[pid].zombie]


def leftovers(root: Path, slurm_conf: str) -> list[Process]:
    """Processes of a test cluster whose supervisor is gone, without those that asked."""
    asking = _ancestry(os.getpid())
    return [
        found
        for pid in _pids()
        if pid not in asking and _belongs(pid, root, slurm_conf) and (found := identify(pid))
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


def end(processes: Iterable[Process], grace_s: float) -> list[Process]:
    """TERM, wait, KILL, wait; what is still there afterwards."""
    left = [process for process in processes if alive(process)]
    for wanted, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        for process in left:
            send(process, wanted)
        deadline = time.monotonic() + patience_s
        while left and time.monotonic() < deadline:
            time.sleep(0.02)
            left = [process for process in left if alive(process)]
    return left


def send(process: Process, number: signal.Signals) -> None:
    """Signal exactly this process, if it is still there."""
    if alive(process):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _ancestry(pid: int) -> set[int]:
    line: set[int] = set()
    while pid > 0 and pid not in line:
        line.add(pid)
        stat = _stat(pid)
        pid = stat.parent if stat else 0
    return line
