"""What the controller looks at between two passes, cheap enough to be done all day.

A file or folder is read again only when its stamp differs. It is opened for the stamp: on NFS an
opened name is asked for at the server, while one that is only looked up may be minutes old.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from Daddy.cluster.orchestrator.intent import read_intent
from Daddy.core.lease import standing
from Daddy.core.paths import RunPaths

_Stamp = tuple[int, int, int] | None
"""(inode, time of the last change in ns, bytes); None where there is nothing."""


class Glance:
    """How a run's intent and its slots' leases stand, as one value to be compared."""

    def __init__(self, run: RunPaths) -> None:
        self._run = run
        self._intent = _Reading(run.intent, partial(read_intent, run))
        self._leases: list[_Reading] = []

    def __call__(self, slots: int) -> tuple[object, ...]:
        """The intent, then (newest term, ended) of each slot. FileError for a damaged intent."""
        for slot in range(len(self._leases), slots):
            lease = self._run.slot(slot).lease
            self._leases.append(_Reading(lease, partial(standing, lease)))
        return (self._intent(), *(lease() for lease in self._leases[:slots]))


class _Reading:
    """What one path says, read again at the two looks after a change.

    The second for what came within the same tick of the file system's clock as the first saw.
    """

    def __init__(self, path: Path, read: Callable[[], object]) -> None:
        self._path, self._read = os.fspath(path), read
        self._stamp: _Stamp = None
        self._value: object = None
        self._settled = False

    def __call__(self) -> object:
        stamp = _stamp(self._path)
        same = stamp == self._stamp
        if not (same and self._settled):
            self._stamp, self._value, self._settled = stamp, self._read(), same
        return self._value


def _stamp(path: str) -> _Stamp:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return found.st_ino, found.st_mtime_ns, found.st_size
