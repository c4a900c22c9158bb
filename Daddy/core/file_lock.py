"""Adapter for flock: locks files against other processes."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from Daddy.core.errors import DaddyError, FileError


def try_lock(file: IO[Any] | int) -> bool:
    """Lock a file that is open for writing; return False if another process has locked it.

    The system ends the lock with the last process that has the descriptor. Raises OSError on a file
    system without locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def hold_lock(path: Path, locked: DaddyError, *, require_locks: bool = False) -> Iterator[None]:
    """Lock a file, which is made if missing. Raises `locked` if another process has locked it.

    A file system without locks is no error unless `require_locks`; then it is a FileError.
    """
    with path.open("ab") as file:  # NFS locks only files that are open for writing
        try:
            free = try_lock(file)
        except OSError as error:
            if require_locks:
                raise FileError(
                    f"{path} cannot be locked ({error.strerror}), so it may be in use",
                    "use a folder on a disk with locks, on the machine that has run it",
                ) from error
            free = True
        if not free:
            raise locked
        yield
