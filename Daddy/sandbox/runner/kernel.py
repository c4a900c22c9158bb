"""Adapter for the Linux kernel: namespaces, mounts, capabilities and seccomp.

On other systems only `clone_into` without flags works: an ordinary fork.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys

NEW_MOUNTS, NEW_IPC, NEW_PIDS = 0x20000, 0x8000000, 0x20000000
READ_ONLY, NO_SUID, NO_DEV, NO_EXEC, REMOUNT, BIND = 1, 2, 4, 8, 32, 4096
_DETACH = 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
RECURSIVE, PRIVATE = 16384, 1 << 18

_SET_PDEATHSIG, _SET_DUMPABLE, _SET_SECCOMP, _DROP_BOUNDING, _SET_NO_NEW_PRIVS = 1, 4, 22, 24, 38
_CLONE = {"x86_64": 56, "aarch64": 220}
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
_RESET_ON_FORK = 1
_SLICE_NS = 100_000
_MACHINE = os.uname().machine
_CAPABILITIES_V3 = 0x20080522

_c = ctypes.CDLL(None, use_errno=True)
_holding = ctypes.PyDLL(None, use_errno=True)
"""The C library called with the interpreter's lock held, as a fork needs it."""
_holding.syscall.restype = ctypes.c_long


def _check(result: int, what: str) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def clone_into(flags: int) -> int:
    """Fork into new namespaces. Return 0 in the child, as `os.fork` does."""
    if not flags:
        return os.fork()
    _holding.PyOS_BeforeFork()
    pid = int(_holding.syscall(_CLONE[_MACHINE], flags | signal.SIGCHLD, 0, 0, 0, 0))
    code = ctypes.get_errno()
    if pid == 0:
        _holding.PyOS_AfterFork_Child()
    else:
        _holding.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(code, f"clone: {os.strerror(code)}")
    return pid


def new_mount_namespace() -> None:
    """Leave the mounts that this process was started with for a copy that it may change."""
    _check(_c.unshare(NEW_MOUNTS), "unshare")
    mount("none", "/", flags=PRIVATE | RECURSIVE)


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Make or change a mount; an empty `kind` or `options` is no argument."""
    texts = [text.encode() or None for text in (source, target, kind, options)]
    result = _c.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])
    _check(result, f"mount {target}")


def change_root(root: str) -> None:
    """Make the mount point `root` the root folder of this namespace, and unmount the one before."""
    os.chdir(root)
    _check(int(_holding.syscall(_PIVOT_ROOT[_MACHINE], b".", b".")), "pivot_root")
    _check(_c.umount2(b".", _DETACH), "umount")
    os.chdir("/")


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends (Linux)."""
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)


def set_open_to_others(is_open: bool) -> None:
    """Open or close this process to others of its user: its memory, descriptors, files of /proc.

    A program that is executed is open.
    """
    _prctl(_SET_DUMPABLE, is_open)


def run_soon() -> None:
    """Ask for short slices of time, which come soon, though many processes wait (Linux 6.12).

    Processes that are started from here do not inherit it. Older kernels ignore it.
    """
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = struct.pack("=IIQiIQQQ", 48, 0, _RESET_ON_FORK, niceness, 0, _SLICE_NS, 0, 0)
    _holding.syscall(_SCHED_SETATTR[_MACHINE], 0, attributes, 0)


def forbid_new_rights() -> None:
    """Let no program that is started from here gain a right: by capabilities or as another user."""
    capability = 0
    while _c.prctl(_DROP_BOUNDING, ctypes.c_ulong(capability), None, None, None) == 0:
        capability += 1
    _prctl(_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Give up all capabilities, for ever after `forbid_new_rights`."""
    header = struct.pack("=Ii", _CAPABILITIES_V3, 0)
    _check(_c.capset(header, bytes(24)), "capset")


def enter_filter(program: bytes) -> None:
    """Put this process and all that it starts under a seccomp program."""
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    _prctl(_SET_SECCOMP, 2, header)


def _prctl(option: int, value: int, pointer: bytes | None = None) -> None:
    if sys.platform == "linux":
        zero = ctypes.c_ulong(0)
        result = _c.prctl(option, ctypes.c_ulong(value), pointer, zero, zero)
        _check(result, f"prctl {option}")
