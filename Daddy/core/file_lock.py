"""Adapter for flock: keeps other processes from what this one does."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from Daddy.core.errors import DaddyError, FileError


@contextmanager
def hold_lock(path: Path, held: DaddyError, *, surely: bool = False) -> Iterator[None]:
    """Lock a file, which is made if it is missing. Raises `held` if another process has locked it.

    The system ends the lock with its process, however that ends. A file system without locks is no
    error, but FileError if it must be known `surely` that no other process has the lock.
    """
    with path.open("ab") as file:  # NFS locks only files that are open for writing
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise held from error
        except OSError as error:
            if surely:
                raise FileError(
                    f"{path} cannot be locked ({error.strerror}), so it may be in use",
                    "use a folder on a disk with locks, on the machine that has run it",
                ) from error
        yield
