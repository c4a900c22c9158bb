"""Door to psutil: cores, memory, and processes told apart by pid and creation time.

A pid alone is no identity: it is reused, and a signal to a stranger is never ours to send.
"""

from __future__ import annotations

import contextlib
import ctypes
import getpass
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

_SAME_CREATION_S = 1.5
"""Seconds two readings of one process's creation time may differ (boot time is rounded)."""

_PR_SET_PDEATHSIG = 1
_STARTTIME = 19
"""Of the fields of /proc/<pid>/stat behind the program's name (proc(5))."""


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process of this host: its pid and when it was created (seconds since 1970)."""

    pid: int
    created: float


def host_name() -> str:
    """This host's short name."""
    return socket.gethostname().split(".")[0]


def full_host_name() -> str:
    """This host's name as others may reach it: with its domain where that is known."""
    own, full = socket.gethostname(), socket.getfqdn()
    return full if full.startswith(f"{host_name()}.") else own


def user_name() -> str:
    """Who runs this, by the system's own word: variables may name somebody else."""
    import pwd  # not on every system that plays or trains

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return getpass.getuser()


def usable_cores() -> int:
    """Cores this process may run on (a Slurm job or a container may own fewer than there are)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return psutil.cpu_count() or 1


def memory_bytes() -> tuple[int, int]:
    """Memory of the machine: (total, available) in bytes."""
    memory = psutil.virtual_memory()
    return int(memory.total), int(memory.available)


def boot_time() -> float:
    """When this host booted, wall seconds."""
    return float(psutil.boot_time())


def mounts() -> list[tuple[str, str, str, str]]:
    """Mounted file systems in their order: device, mount point, kind, options."""
    mounted = psutil.disk_partitions(all=True)
    return [(one.device, one.mountpoint, one.fstype, one.opts) for one in mounted]


def resident_bytes(pid: int) -> int:
    """Resident memory of a process and its descendants in bytes; 0 when it is gone."""
    total = 0
    for process in _family(pid):
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss
    return total


def command_lines() -> dict[int, str]:
    """Of every process that we may look at, by pid; empty for those of the kernel."""
    every = psutil.process_iter(["cmdline"])
    return {one.pid: " ".join(one.info["cmdline"] or ()) for one in every}


def process_age_s() -> float:
    """How long ago this process was created: before its interpreter ran, to a hundredth on Linux.

    :func:`identify_process` is coarser, because the kernel tells when it booted in whole seconds.
    """
    if sys.platform == "linux":
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        born = int(fields[_STARTTIME]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - born)
    return max(0.0, time.time() - current_process().created)  # noqa: TID251 - psutil's own clock


def identify_process(pid: int) -> ProcessId | None:
    """Who has this pid now; None when nobody does."""
    try:
        return ProcessId(pid, float(psutil.Process(pid).create_time()))
    except psutil.Error:
        return None


def current_process() -> ProcessId:
    """This process."""
    return identify_process(os.getpid()) or ProcessId(os.getpid(), 0.0)


def is_alive(who: ProcessId) -> bool:
    """Whether that very process still runs (an unreaped, ended child does not)."""
    return _process(who) is not None


def is_stopped(who: ProcessId) -> bool:
    """Whether that very process was suspended (SIGSTOP): it exists, but nothing it holds moves."""
    process = _process(who)
    try:
        return process is not None and process.status() == psutil.STATUS_STOPPED
    except psutil.Error:
        return False


def _process(who: ProcessId) -> psutil.Process | None:
    try:
        process = psutil.Process(who.pid)
        same = abs(process.create_time() - who.created) < _SAME_CREATION_S
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.Error:
        return None


def signal_process(who: ProcessId, number: int) -> bool:
    """Send a signal to that very process; False when it is gone."""
    process = _process(who)
    if process is None:
        return False
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)
        return True
    return False


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return []


def terminate_tree(who: ProcessId, grace_s: float) -> None:
    """End a process and its descendants: SIGTERM, ``grace_s`` seconds later SIGKILL."""
    if _process(who) is None:
        return
    family = _family(who.pid)
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        for process in family:
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)
        _, family = psutil.wait_procs(family, timeout=wait_s)
        if not family:
            return


def die_with_parent(parent: int = 0) -> None:
    """Make sure this process ends soon after its parent does, even if that was killed.

    ``parent`` is its pid as it told us itself: it may have died before we came to ask.
    Linux: the kernel sends SIGKILL. Elsewhere a thread looks at the parent's pid once a second.
    """
    parent = parent or os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the kernel knew
            os._exit(0)
        return
    threading.Thread(target=_watch_parent, args=(parent,), daemon=True).start()


def parent_death_hook(parent: int) -> Callable[[], None] | None:
    """What a child is to run before it becomes another program, to be killed when we die.

    None where the kernel cannot do that. The kernel means the *thread* that started the child.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl  # found now: a forked child should find nothing

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return tie


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        threading.Event().wait(1.0)
    os._exit(0)


def _owner_of(fits: Callable[[Any], bool]) -> tuple[str, int] | None:
    """Program and pid of the TCP connection of this host that `fits`; None if nobody can say."""
    with contextlib.suppress(psutil.Error, OSError):
        for one in psutil.net_connections("tcp"):
            if one.pid and fits(one):
                return _program(psutil.Process(one.pid)), one.pid
    return None


def socket_owner(local_port: int, remote_port: int) -> str | None:
    """Name of the program whose end of a loopback TCP connection this is; None if nobody can say.

    Tells a tunnel (``ssh``) from a program that connected directly.
    """
    ports = (local_port, remote_port)
    found = _owner_of(lambda at: at.laddr and at.raddr and (at.laddr.port, at.raddr.port) == ports)
    return found and found[0]


def listening_program(port: int) -> str | None:
    """The program that listens on a TCP port of this machine, such as ``python (process 4711)``.

    None when nobody does or nobody may know.
    """
    found = _owner_of(lambda at: at.status == psutil.CONN_LISTEN and at.laddr.port == port)
    return found and f"{found[0]} (process {found[1]})"


def _program(process: psutil.Process) -> str:
    """Name of what a process runs, also where the loader was told to run it (unpacked programs)."""
    name = str(process.name())
    loaded = process.cmdline()[1:] if name.startswith("ld-") else []
    return next((Path(word).name for word in loaded if Path(word).is_file()), name)


def lower_priority(niceness: int) -> None:
    """Let whatever the person does go first; children started later inherit it."""
    with contextlib.suppress(OSError, psutil.Error):
        process = psutil.Process()
        if int(process.nice() or 0) < niceness:
            process.nice(niceness)
