"""Adapter for the Linux system calls that Python 3.10 lacks."""

import ctypes
import os
from pathlib import Path

NEWNS, NEWUTS, NEWNET = 0x00020000, 0x04000000, 0x40000000
_BIND, _REC, _SLAVE = 4096, 16384, 1 << 19
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def unshare(flags: int) -> None:
    """Move this process into new namespaces of these kinds (unshare 2)."""
    _check(_libc.unshare(flags))


def enter(handle: int) -> None:
    """Enter the namespace of an open handle (setns 2); the process must have one thread."""
    _check(_libc.setns(handle, 0))


def bind(source: Path, target: str) -> None:
    """Show ``source`` at ``target`` in this mount namespace."""
    _check(_libc.mount(str(source).encode(), target.encode(), None, _BIND, None))


def make_mounts_private() -> None:
    """Hide later mounts of this mount namespace from others."""
    _check(_libc.mount(b"none", b"/", None, _REC | _SLAVE, None))


def mount_memory(target: str) -> None:
    """Mount an empty tmpfs at ``target``."""
    _check(_libc.mount(b"tmpfs", target.encode(), b"tmpfs", 0, b"mode=755"))


def set_hostname(name: str) -> None:
    """Set the host name of this UTS namespace."""
    _check(_libc.sethostname(name.encode(), len(name.encode())))


def die_with_parent(number: int) -> None:
    """Receive a signal when the thread that started this process ends (prctl 1)."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0))


def become_subreaper() -> None:
    """Become the parent of orphaned descendants (prctl 36)."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
