"""Adapter for the user database: reserves user ids that own nothing on this machine.

Root's sandboxes run as such a user, one each: the kernel's limit of processes is then theirs, and
who breaks out of a sandbox is nobody. An id is reserved by a lock on one byte of a file, which the
kernel takes back when the process that holds it ends.
"""

import contextlib
import fcntl
import os
import pwd
from collections.abc import Iterable
from pathlib import Path

from Daddy.core.errors import SandboxError

FIRST_USER, LAST_USER = 64000, 64999
LOCK_FILE = Path("/run/daddy-sandbox-users.lock")
_SUBORDINATE = (Path("/etc/subuid"), Path("/etc/subgid"))

_held: set[int] = set()
_lock_files: dict[Path, int] = {}
"""Open for ever: closing a file gives up all locks that the process has on it."""


def reserve_user(
    lock_file: Path = LOCK_FILE, candidates: Iterable[int] = range(FIRST_USER, LAST_USER + 1)
) -> int:
    """Reserve an id without account, process or owner. Raises SandboxError if none is free."""
    owned = _subordinate_ids(_SUBORDINATE)
    for user in candidates:
        taken = user in _held or any(user in ids for ids in owned) or _has_account(user)
        if not taken and _lock(lock_file, user):
            _held.add(user)
            if user not in _users_of_processes():  # another host may have just let go of it
                return user
            release_user(user, lock_file)
    raise SandboxError(
        f"no user id from {FIRST_USER} to {LAST_USER} is free for a sandbox",
        "end sandboxes of other runs, or start as an ordinary user",
    )


def release_user(user: int, lock_file: Path = LOCK_FILE) -> None:
    """Give an id back. A second call does nothing."""
    if user in _held:
        _held.discard(user)
        fcntl.lockf(_lock_files[lock_file], fcntl.LOCK_UN, 1, user)


def _lock(path: Path, user: int) -> bool:
    if path not in _lock_files:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        _lock_files[path] = os.open(path, flags, 0o600)
    with contextlib.suppress(OSError):
        fcntl.lockf(_lock_files[path], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, user)
        return True
    return False


def _has_account(user: int) -> bool:
    with contextlib.suppress(KeyError):
        pwd.getpwuid(user)
        return True
    return False


def _users_of_processes() -> set[int]:
    """Return the user ids of all processes, in half the time that scandir takes."""
    return {_owner(f"/proc/{name}") for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208


def _owner(path: str) -> int:
    """Return the user id of a file's owner; -1 if the file is gone."""
    try:
        return os.stat(path).st_uid  # noqa: PTH116
    except OSError:
        return -1


def _subordinate_ids(files: Iterable[Path]) -> list[range]:
    """Return the ranges of ids that accounts own besides their own (subuid(5))."""
    found = []
    for file in files:
        with contextlib.suppress(OSError, ValueError):
            for line in file.read_text().splitlines():
                _, first, count = line.split(":")
                found.append(range(int(first), int(first) + int(count)))
    return found
