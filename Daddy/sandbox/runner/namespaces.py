"""Adapter for mount namespaces: makes every mount of a sandbox read-only or bounded.

The runner leaves the mounts of its sandbox as they are and works on a copy. There, everything that
could be written is made read-only; then it mounts a tmpfs for each command (or, in a persistent
sandbox, one for all), which holds both /tmp and /dev/shm.
"""

from __future__ import annotations

import os

from . import kernel

FILES = "/files"
"""Folder of files that the host puts into a fresh sandbox; commands see it read-only."""

_FILES_BYTES = 64 << 20
_FILES_COUNT = 10_000
_SCRATCH_FOLDERS = 3
_TERMINALS = 32
_SAFE = kernel.NO_SUID | kernel.NO_DEV
_KEPT = {"nosuid": kernel.NO_SUID, "nodev": kernel.NO_DEV, "noexec": kernel.NO_EXEC}
_ACCESS_TIMES = {"noatime": 1 << 10, "nodiratime": 1 << 11, "relatime": 1 << 21}


def prepare_mounts() -> int:
    """Set up the mounts that all commands share. Return a descriptor of FILES to write to."""
    kernel.new_mount_namespace()
    _close_writable_mounts()
    options = f"newinstance,ptmxmode=0666,mode=0620,max={_TERMINALS}"
    kernel.mount("devpts", "/dev/pts", "devpts", kernel.NO_SUID | kernel.NO_EXEC, options)
    return _mount_files()


def _close_writable_mounts() -> None:
    with open("/proc/self/mountinfo", encoding="latin-1") as table:  # noqa: PTH123
        mounts = [line.split(" ")[4:6] for line in table]
    for point, options in mounts:
        if "rw" in options.split(","):
            kept = {**_KEPT, **_ACCESS_TIMES}
            flags = sum(kept.get(option, 0) for option in options.split(","))
            remount_read_only(_unescape(point), flags)


def remount_read_only(point: str, flags: int = _SAFE) -> None:
    """Make a mount read-only. The kernel wants `flags` to be those that the mount has."""
    kernel.mount("none", point, flags=kernel.REMOUNT | kernel.BIND | kernel.READ_ONLY | flags)


def _unescape(point: str) -> str:
    """Return a mount point as mountinfo(5) writes it: a space in octal, after a backslash."""
    return os.fsdecode(point.encode("latin-1").decode("unicode_escape").encode("latin-1"))


def _mount_files() -> int:
    """Mount FILES twice: the upper mount is read-only, a descriptor leads to the lower one."""
    options = f"size={_FILES_BYTES},nr_inodes={_FILES_COUNT},mode=0755"
    kernel.mount("tmpfs", FILES, "tmpfs", _SAFE, options)
    descriptor = os.open(FILES, os.O_RDONLY | os.O_DIRECTORY)
    kernel.mount(FILES, FILES, flags=kernel.BIND)
    remount_read_only(FILES)
    return descriptor


def mount_scratch(megabytes: int, files: int) -> None:
    """Mount one tmpfs with room for `megabytes` and `files` at both /tmp and /dev/shm."""
    options = _scratch_options(megabytes, files)
    kernel.mount("tmpfs", "/tmp", "tmpfs", _SAFE, f"{options},mode=0755")  # noqa: S108
    for name in ("/tmp/tmp", "/tmp/shm"):  # noqa: S108
        os.mkdir(name)  # noqa: PTH102
        os.chmod(name, 0o1777)  # noqa: PTH101, S103 - as every /tmp
    kernel.mount("/tmp/shm", "/dev/shm", flags=kernel.BIND)  # noqa: S108
    kernel.mount("/tmp/tmp", "/tmp", flags=kernel.BIND)  # noqa: S108


def resize_scratch(megabytes: int, files: int) -> None:
    """Change the room of the scratch. Raises OSError if more than that is in use."""
    options = _scratch_options(megabytes, files)
    kernel.mount("tmpfs", "/tmp", "tmpfs", kernel.REMOUNT | _SAFE, options)  # noqa: S108


def _scratch_options(megabytes: int, files: int) -> str:
    return f"size={megabytes}m,nr_inodes={files + _SCRATCH_FOLDERS}"


def mount_processes(*, hide: bool = False) -> None:
    """Mount a /proc of this pid namespace; `hide` shows a process only its own kind."""
    flags = kernel.READ_ONLY | _SAFE | kernel.NO_EXEC
    kernel.mount("proc", "/proc", "proc", flags, "hidepid=2" if hide else "")
