"""Adapter for /proc: measures the memory that processes take of the host.

Counted are anonymous memory (in swap too), page tables, pipes, sockets, the kernel's records of
mappings, and the scratch files. The first sum is quick and no lower than the truth: memory that
processes share after a fork counts for each of them, and every descriptor as a socket. Only when it
is over the limit the exact sum is taken.
"""

from __future__ import annotations

import os
from typing import Callable, Iterable

import _socket

_PIPE_BYTES = 64 * 1024
_MAPPING_BYTES = 256
"""Kernel memory of one mapping: vm_area_struct and its share of the tree."""
_COUNTED = (b"RssAnon:", b"VmPTE:", b"VmSwap:")
_HIDDEN = b"/dev/zero (deleted)"
"""Name of shared anonymous memory, which stays in use after it is unmapped: never allowed."""
_GROWTH_PER_CORE = 2 << 30
"""Bytes a second that a core can take of fresh memory at most."""
_SHORTEST_S, _LONGEST_S = 0.001, 0.02
BEYOND = 1 << 62
"""Memory of processes that hold memory in a way that cannot be measured."""


class MemoryUse:
    """Measures the processes that `processes` lists. `scratch` is a path on their scratch tmpfs."""

    def __init__(self, processes: Callable[[], Iterable[int]], scratch: str = "") -> None:
        self._processes, self._scratch = processes, scratch

    def measure(self, limit: int) -> tuple[int, int]:
        """Return the bytes in use, exact if near `limit` or over it, and the processes' number."""
        pids = list(self._processes())
        scratch = _scratch_bytes(self._scratch)
        total = scratch + sum(_most_of(pid) for pid in pids)
        if limit < total < BEYOND:
            total = scratch + _exact(pids)
        return total, len(pids)


def next_look_s(used: int, limit: int, cores: int, longest_s: float = _LONGEST_S) -> float:
    """Return the seconds in which memory in use cannot grow past the limit, within bounds."""
    return min(max((limit - used) / (cores * _GROWTH_PER_CORE), _SHORTEST_S), longest_s)


def _scratch_bytes(path: str) -> int:
    if not path:
        return 0
    try:
        status = os.statvfs(path)
    except OSError:
        return 0
    return (status.f_blocks - status.f_bfree) * status.f_frsize


def _most_of(pid: int) -> int:
    """Return an upper bound of a process's memory; 0 if it ended."""
    try:
        maps = _read(f"/proc/{pid}/maps")
        if _HIDDEN in maps:
            return BEYOND
        descriptors = _count_descriptors(f"/proc/{pid}/fd") * DATAGRAM_BYTES
        mappings = maps.count(b"\n") * _MAPPING_BYTES
        return _kib(_read(f"/proc/{pid}/status"), _COUNTED) + mappings + descriptors
    except OSError:
        return 0


def _count_descriptors(folder: str) -> int:
    """Count descriptors: the folder's size, which Linux gives since 6.2, or its entries."""
    return os.stat(folder).st_size or len(os.listdir(folder))  # noqa: PTH116, PTH208


def _exact(pids: list[int]) -> int:
    total, targets = _tcp_bytes(), set()
    for pid in pids:
        try:
            maps = _read(f"/proc/{pid}/maps").count(b"\n") * _MAPPING_BYTES
            status = _kib(_read(f"/proc/{pid}/status"), _COUNTED[1:])
            total += maps + status + _kib(_read(f"/proc/{pid}/smaps_rollup"), (b"Pss_Anon:",))
            targets |= set(_targets(f"/proc/{pid}/fd"))
        except OSError:
            continue
    pipes = sum(target.startswith("pipe:") for target in targets)
    sockets = sum(target.startswith("socket:") for target in targets)
    return total + pipes * _PIPE_BYTES + sockets * DATAGRAM_BYTES


def _targets(folder: str) -> Iterable[str]:
    for name in os.listdir(folder):  # noqa: PTH208
        try:
            yield os.readlink(f"{folder}/{name}")  # noqa: PTH115
        except OSError:
            continue


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        first = os.read(descriptor, 1 << 16)
        rest = iter(lambda: os.read(descriptor, 1 << 16), b"")
        return first + b"".join(rest) if first else first
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
