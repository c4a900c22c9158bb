"""One transfer at a time in a laptop's folder, whoever started it.

Two would take each other's partial files for leftovers of their own. The kernel gives the turn back
when its holder dies, however it dies. What a killed process had begun to write goes with the turn:
nobody else can be writing it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.errors import NetworkError

PATIENCE_S = 60.0
"""How long a transfer waits for its turn; a loop comes back anyway."""
LOOK_S = 0.2
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
_LEFT_OVER = ("wan/.tmp-*", "incoming/.tmp-*")


@contextlib.contextmanager
def turn(local: Path, clock: Clock, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Hold the folder ``local``; NetworkError when another process holds it for too long.

    On a disk that knows no locks nobody waits.
    """
    descriptor = os.open(local / ".turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _await(descriptor, local, clock, clock.monotonic() + patience_s)
        _clear(local)
        yield
    finally:
        os.close(descriptor)


def _await(descriptor: int, local: Path, clock: Clock, until: float) -> None:
    never = threading.Event()
    while not _taken(descriptor):
        if clock.monotonic() >= until:
            raise NetworkError(
                f"another sync_weights.sh is at work in {local}",
                "let it finish, or end it: one is enough",
            )
        clock.wait(never, LOOK_S)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


def _clear(local: Path) -> None:
    for pattern in _LEFT_OVER:
        for path in local.glob(pattern):
            path.unlink(missing_ok=True)
