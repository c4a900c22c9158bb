"""Adapter for /proc: measures the memory that processes take of the host.

Counted are anonymous memory (in swap too), page tables, pipes, sockets, the kernel's records of
mappings and file locks, and the scratch files. A look is quick and never too low: memory that
processes share after a fork counts for each of them, and every descriptor as a pipe or socket. Only
when that is over the limit they are stopped for the exact sum, and go on if it is not.
"""

from __future__ import annotations

import _socket
import contextlib
import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_PIPE_BYTES = 64 * 1024
_MAPPING_BYTES = 320
"""Kernel memory of one mapping: vm_area_struct and its share of the tree."""
_LOCK_BYTES, _MOST_LOCKS = 256, 8000
"""Kernel memory of one file lock, and a number of them that takes too long to list."""
_MOST_MAPS_BYTES = 512 * 1024
"""Length of a list of mappings, about 8,000, that takes too long to read to watch its process."""
_COUNTED = (b"VmPTE:", b"VmSwap:")
_HIDDEN = b"/dev/zero (deleted)"
"""Name of shared anonymous memory, which stays in use after it is unmapped: never allowed."""
_GROWTH_PER_CORE = 4 << 30
"""Bytes a second that a core can take of fresh memory at most, doubled since looks can be late."""
_SHORTEST_S, _LONGEST_S = 0.001, 0.1
"""Bounds of the time between two looks."""
INCOMPLETE_S = 0.02
"""Most seconds to the next look after one that had no time to examine all processes."""
_LOCKS_HOLD_S = 0.2
"""Seconds between two readings of the locks: each takes 12 ms, for which nothing is watched."""
_EXAMINE_S, _EXAMINED_FOR_S = 0.002, 0.02
"""Seconds that a look may spend on what is no anonymous memory, and for which this then holds."""
_ROUNDS = 10
"""Most times to look for processes that started while others were stopped."""
_CLEARLY_BELOW = 0.85
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
BEYOND = 1 << 62
"""Memory of processes that hold memory in a way that cannot be measured."""


class MemoryUse:
    """Measures the processes that `processes` lists. `scratch` is a path on their scratch tmpfs.

    Without it they have no namespaces of their own: the machine's locks and sockets are not theirs.
    """

    def __init__(self, processes: Callable[[], Iterable[int]], scratch: str = "") -> None:
        self._processes, self._scratch = processes, scratch
        self._examined: dict[int, tuple[float, int]] = {}
        self._locks, self._locks_at = 0, time.monotonic()
        self.longest_s = _LONGEST_S

    def measure(self, limit: int) -> tuple[int, int]:
        """Return the bytes in use, exact if it may be over it, and the processes' number.

        Then `longest_s` are the most seconds to the next look.
        """
        anonymous = dict(map(_size, self._processes()))
        self._examine_some(list(anonymous))
        pipes = sum(map(_count_descriptors, anonymous))
        buffers = self._buffers(pipes, 0 if self._scratch else pipes)
        total = sum(anonymous.values()) + buffers + self._besides()
        if limit < total < BEYOND:
            total = self._measure_stopped(limit)
        return total, len(anonymous)

    def _examine_some(self, pids: list[int]) -> None:
        """Examine the kernel's memory for processes; for a short time, the longest waiting first.

        A process can make this slow for itself, and shall not hold up a look at the others.
        """
        known = self._examined
        self._examined = {pid: known.get(pid, (0.0, 0)) for pid in pids}
        began, self.longest_s = time.monotonic(), _LONGEST_S
        for pid in sorted(pids, key=self._examined.__getitem__):
            now = time.monotonic()
            if now < self._examined[pid][0] + _EXAMINED_FOR_S:
                break
            if now > began + _EXAMINE_S:
                self.longest_s = INCOMPLETE_S
                break
            self._examined[pid] = (now, _kernel_bytes(pid))

    def _besides(self) -> int:
        kernel = sum(kernel for _, kernel in self._examined.values())
        return kernel + (_scratch_bytes(self._scratch) + self._lock_bytes() if self._scratch else 0)

    def _lock_bytes(self) -> int:
        if (now := time.monotonic()) > self._locks_at + _LOCKS_HOLD_S:
            self._locks = _lock_bytes()
            self._locks_at = now
        return self._locks

    def _buffers(self, pipes: int, sockets: int) -> int:
        """Return the most that pipes and sockets hold.

        A network namespace counts its sockets, also those on their way to another process.
        """
        if self._scratch:
            sockets = max(sockets, _count_sockets() - _FOREIGN_SOCKETS)
        return pipes * _PIPE_BYTES + sockets * DATAGRAM_BYTES

    def _measure_stopped(self, limit: int) -> int:
        """Stop all processes, parents first, so that they cannot grow while they are measured.

        They go on in the opposite order: a shell never sees that its child was stopped.
        """
        seen: set[int] = set()
        stopped: list[int] = []
        for _ in range(_ROUNDS):
            new = [pid for pid, _ in map(_size, self._processes()) if pid not in seen]
            seen.update(new)
            stopped += [pid for pid in new if not _is_stopped(pid) and _signal(pid, signal.SIGSTOP)]
            if not new:
                break
        total = self._exact(seen, limit)
        if total <= limit:
            for pid in reversed(stopped):
                _signal(pid, signal.SIGCONT)
        return total

    def _exact(self, pids: Iterable[int], limit: int) -> int:
        """Replace bounds by exact sizes, the largest first, until the sum is clearly below `limit`.

        Pages that n processes share count for an nth in each.
        """
        bounds = sorted(((_anonymous(pid), pid) for pid in pids), reverse=True)
        total = sum(bound for bound, _ in bounds) + self._besides()
        total += self._buffers(*_count_pipes_and_sockets(pids))
        total += _tcp_bytes() if self._scratch else 0
        for bound, pid in bounds:
            if total <= limit * _CLEARLY_BELOW:
                break
            total -= bound - min(bound, _share(pid))
        return total


def next_look_s(used: int, limit: int, cores: int, longest_s: float) -> float:
    """Return the seconds in which memory in use cannot grow past the limit, within bounds."""
    return min(max((limit - used) / (cores * _GROWTH_PER_CORE), _SHORTEST_S), longest_s)


def _scratch_bytes(path: str) -> int:
    try:
        status = os.statvfs(path)
    except OSError:
        return 0
    return (status.f_blocks - status.f_bfree) * status.f_frsize


def _size(pid: int) -> tuple[int, int]:
    """Return a process, named by a thread that lives, with its anonymous memory.

    Nothing can be read of a process by its own number if its first thread has ended.
    """
    size = _anonymous(pid)
    if size:
        return pid, size
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            size = _anonymous(int(name))
            if size:
                return int(name), size
    return pid, 0


def _anonymous(pid: int) -> int:
    """Return the anonymous memory of a process; 0 if it ended."""
    try:
        _, resident, shared, _ = _read(f"/proc/{pid}/statm").split(b" ", 3)
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * _PAGE_BYTES


def _kernel_bytes(pid: int) -> int:
    """Return the memory of the kernel's tables for a process, and its pages in swap."""
    try:
        maps = _read(f"/proc/{pid}/maps", _MOST_MAPS_BYTES)
        if _HIDDEN in maps or len(maps) >= _MOST_MAPS_BYTES:
            return BEYOND
        return _kib(_read(f"/proc/{pid}/status"), _COUNTED) + maps.count(b"\n") * _MAPPING_BYTES
    except OSError:
        return 0


def _share(pid: int) -> int:
    """Return the anonymous memory of a process, of which it shares a part with others."""
    try:
        return _kib(_read(f"/proc/{pid}/smaps_rollup"), (b"Pss_Anon:",))
    except OSError:
        return 0


def _count_descriptors(pid: int) -> int:
    """Count descriptors: the size of their folder, which Linux gives since 6.2, or its entries."""
    try:
        folder = f"/proc/{pid}/fd"
        return os.stat(folder).st_size or len(os.listdir(folder))  # noqa: PTH116, PTH208
    except OSError:
        return 0


def _is_stopped(pid: int) -> bool:
    try:
        return b"State:\tT" in _read(f"/proc/{pid}/status")
    except OSError:
        return True


def _signal(pid: int, number: int) -> bool:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
        return True
    return False


def _count_pipes_and_sockets(pids: Iterable[int]) -> tuple[int, int]:
    """Count the pipes and the sockets of processes, each once."""
    targets: set[str] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            targets.update(_targets(f"/proc/{pid}/fd"))
    pipes = sum(target.startswith("pipe:") for target in targets)
    sockets = sum(target.startswith("socket:") for target in targets)
    return pipes, sockets


def _count_sockets() -> int:
    """Count the sockets of this network namespace, also those that no process has open."""
    try:
        return int(_read("/proc/self/net/sockstat").split(b"\n", 1)[0].split()[2])
    except (OSError, LookupError, ValueError):
        return 0


def _lock_bytes() -> int:
    """Return the memory of the file locks of this pid namespace.

    Locks of open file descriptions belong to no process: those of the whole machine are listed.
    """
    try:
        locks = _read("/proc/locks")
    except OSError:
        return 0
    count = locks.count(b"\n") - locks.count(b"OFDLCK")
    return BEYOND if count >= _MOST_LOCKS else count * _LOCK_BYTES


def _targets(folder: str) -> Iterable[str]:
    for name in os.listdir(folder):  # noqa: PTH208
        try:
            yield os.readlink(f"{folder}/{name}")  # noqa: PTH115
        except OSError:
            continue


def _read(path: str, most: int = 1 << 20) -> bytes:
    """Return a file, but no more of it than about `most` bytes."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        found = piece = os.read(descriptor, 1 << 16)
        while piece and len(found) < most:
            piece = os.read(descriptor, 1 << 16)
            found += piece
        return found
    finally:
        os.close(descriptor)


def _kib(text: bytes, names: tuple[bytes, ...]) -> int:
    """Return the sum of these lines ``Name:   123 kB`` in bytes."""
    total = 0
    for name in names:
        at = text.find(name)
        if at >= 0:
            total += int(text[at + len(name) : text.find(b"k", at)])
    return total << 10


def _tcp_bytes() -> int:
    """Return the most that the queues of this network's TCP sockets take, also of closed ones."""
    total = 0
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        try:
            lines = _read(table).split(b"\n")[1:-1]
        except OSError:
            continue
        for line in lines:
            to_send, received = line.split()[4].split(b":")
            total += TCP_BYTES[0] * (int(to_send, 16) > 0) + TCP_BYTES[1] * (int(received, 16) > 0)
    return total


def _default_buffers() -> int:
    sample = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
    options = (_socket.SO_SNDBUF, _socket.SO_RCVBUF)
    sizes = [sample.getsockopt(_socket.SOL_SOCKET, option) for option in options]
    sample.close()
    return sum(sizes)


def _tcp_buffers() -> tuple[int, int]:
    """Return the largest send and receive buffer that the kernel gives a TCP socket by itself."""
    try:
        send, receive = (_read(f"/proc/sys/net/ipv4/tcp_{way}mem").split()[2] for way in "wr")
    except OSError:
        return 4 << 20, 6 << 20
    return int(send), int(receive)


DATAGRAM_BYTES = _default_buffers()
TCP_BYTES = _tcp_buffers()
_FOREIGN_SOCKETS = _count_sockets()
"""Sockets of others, if this program has no network namespace of its own."""
