"""Adapter for psutil: reads cores and memory, and identifies processes by pid and creation time.

The system reuses pids, so a pid alone could send a signal to another program.
"""

import contextlib
import ctypes
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
"""Seconds by which two readings of a process's creation time may differ: boot time is rounded."""

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_STARTTIME = 19
"""Index of the start time among the fields of /proc/<pid>/stat after the name (proc(5))."""


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process of this host: its pid and its creation time in seconds since 1970."""

    pid: int
    created: float


def host_name() -> str:
    """Return this host's name without its domain."""
    return socket.gethostname().split(".")[0]


def full_host_name() -> str:
    """Return this host's name with its domain, where that is known."""
    own, full = socket.gethostname(), socket.getfqdn()
    return full if full.startswith(f"{host_name()}.") else own


def address_toward(host: str, family: int = socket.AF_INET) -> str:
    """Return this machine's address on the way to a host; no packet is sent. Raises OSError."""
    family, kind, *_, address = socket.getaddrinfo(host, 9, family, socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])


def user_name() -> str:
    """Return the account's name in the user database, else ``USER``, else the user id."""
    import pwd  # missing on some systems

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return os.environ.get("USER") or str(os.getuid())


def usable_cores() -> int:
    """Count the cores that this process may use: in a job or a container, fewer than exist."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return psutil.cpu_count() or 1


def memory_bytes() -> tuple[int, int]:
    """Return the machine's total and available memory in bytes."""
    memory = psutil.virtual_memory()
    return int(memory.total), int(memory.available)


def boot_time() -> float:
    """Return the wall time in seconds at which this host booted."""
    return float(psutil.boot_time())


def mounts() -> list[tuple[str, str, str, str]]:
    """List mounted file systems in order of mounting: device, mount point, type, options."""
    mounted = psutil.disk_partitions(all=True)
    return [(disk.device, disk.mountpoint, disk.fstype, disk.opts) for disk in mounted]


def resident_bytes(pid: int) -> int:
    """Sum the resident memory of a process and its descendants in bytes; 0 when it is gone."""
    total = 0
    for process in _family(pid):
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss
    return total


def command_lines() -> dict[int, str]:
    """Return pid → command line of each process that we may read; empty for kernel threads."""
    processes = psutil.process_iter(["cmdline"])
    return {process.pid: " ".join(process.info["cmdline"] or ()) for process in processes}


def process_age_s() -> float:
    """Return seconds since this process was created, on Linux to a hundredth."""
    if sys.platform == "linux":
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        created = int(fields[_STARTTIME]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - created)
    return max(0.0, time.time() - current_process().created)  # noqa: TID251 - psutil's own clock


def identify_process(pid: int) -> ProcessId | None:
    """Return the process that has this pid now, or None."""
    try:
        return ProcessId(pid, float(psutil.Process(pid).create_time()))
    except psutil.Error:
        return None


def current_process() -> ProcessId:
    """Return the identity of this process."""
    return identify_process(os.getpid()) or ProcessId(os.getpid(), 0.0)


def is_alive(process_id: ProcessId) -> bool:
    """Return True if exactly that process runs; a zombie (ended, not reaped) does not."""
    return _process(process_id) is not None


def is_stopped(process_id: ProcessId) -> bool:
    """Return True if exactly that process is suspended (SIGSTOP), so that it makes no progress."""
    process = _process(process_id)
    try:
        return process is not None and process.status() == psutil.STATUS_STOPPED
    except psutil.Error:
        return False


def _process(process_id: ProcessId) -> psutil.Process | None:
    try:
        process = psutil.Process(process_id.pid)
        same = abs(process.create_time() - process_id.created) < _SAME_CREATION_S
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.Error:
        return None


def signal_process(process_id: ProcessId, number: int) -> bool:
    """Send a signal to exactly that process; return False when it is gone."""
    process = _process(process_id)
    if process is None:
        return False
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)
        return True
    return False


def signal_descendants(pid: int, number: int) -> bool:
    """Send a signal (0: none) to each process below ``pid``; return False if there is none."""
    family = _family(pid)[1:]
    for process in family:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)
    return bool(family)


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return []


def tree_cpu_seconds() -> float:
    """Return the CPU seconds of this process, its living descendants and its ended children."""
    total = 0.0
    for process in _family(os.getpid()):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
            total += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return total


def terminate_tree(process_id: ProcessId, grace_s: float) -> None:
    """End a process and its descendants: SIGTERM, ``grace_s`` seconds later SIGKILL."""
    if _process(process_id) is None:
        return
    family = _family(process_id.pid)
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        for process in family:
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)
        _, family = psutil.wait_procs(family, timeout=wait_s)
        if not family:
            return


def die_with_parent(parent: int = 0) -> None:
    """End this process soon after its parent ends, even if the parent is killed.

    ``parent``: the parent's pid, passed by the parent because it may be dead before we ask.
    On Linux the kernel sends SIGKILL; elsewhere a thread polls the parent's pid once a second.
    """
    parent = parent or os.getppid()
    if sys.platform == "linux":
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the kernel knew
            os._exit(0)
        return
    threading.Thread(target=_watch_parent, args=(parent,), daemon=True).start()


def present_core() -> int:
    """Return the number of the core on which this thread runs now, 0 where nothing tells."""
    return max(0, int(_libc.sched_getcpu())) if sys.platform == "linux" else 0


def move_to_core(core: int) -> None:
    """Move this thread to a core if it may run there; it is not held there. Linux only."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):  # forbidden here, or the core was taken from us meanwhile
        if core in (allowed := os.sched_getaffinity(0)):
            os.sched_setaffinity(0, {core})
            os.sched_setaffinity(0, allowed)


def let_others_run_first() -> None:
    """Join Linux's batch class, whose processes interrupt nobody as they wake, from the usual one.

    Nothing happens if it is forbidden, or on other systems.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            if os.sched_getscheduler(0) == os.SCHED_OTHER:
                os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def parent_death_hook(parent: int) -> Callable[[], None] | None:
    """Return a ``preexec_fn`` by which Linux kills a child when this process dies, or None.

    The kernel kills the child also when the *thread* that started it ends.
    """
    if sys.platform != "linux":
        return None
    prctl = _libc.prctl  # looked up here: a forked child must not wait for the loader's lock

    def request_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return request_signal


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        threading.Event().wait(1.0)
    os._exit(0)


def _owner_of(matches: Callable[[Any], bool]) -> tuple[str, int] | None:
    """Return program and pid of the TCP connection that `matches`; None if unknown."""
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            if connection.pid and matches(connection):
                return _program(psutil.Process(connection.pid)), connection.pid
    return None


def socket_owner(local_port: int, remote_port: int) -> str | None:
    """Return the program at one end of a loopback TCP connection (``ssh``: a tunnel), or None."""
    ports = (local_port, remote_port)
    owner = _owner_of(lambda end: end.laddr and end.raddr and (end.laddr[1], end.raddr[1]) == ports)
    return owner and owner[0]


def listening_program(port: int) -> str | None:
    """Return the program that listens on a TCP port, as ``python (process 4711)``, or None."""
    owner = _owner_of(lambda end: end.status == psutil.CONN_LISTEN and end.laddr.port == port)
    return owner and f"{owner[0]} (process {owner[1]})"


def _program(process: psutil.Process) -> str:
    """Return a process's program, also if the dynamic loader runs it (unpacked programs)."""
    name = str(process.name())
    loaded = process.cmdline()[1:] if name.startswith("ld-") else []
    return next((Path(word).name for word in loaded if Path(word).is_file()), name)


def lower_priority(niceness: int) -> None:
    """Raise this process's niceness to ``niceness`` at least; later children inherit that."""
    with contextlib.suppress(OSError, psutil.Error):
        process = psutil.Process()
        if int(process.nice() or 0) < niceness:
            process.nice(niceness)
