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
    """How a run's intent and its slots' leases stand, as one value to be compared.

    A change within the same tick of the file system's clock (4 ms) as the one before it is seen
    with the next one: a beat, at the latest.
    """

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
    """What one path says, read again when it has changed."""

    def __init__(self, path: Path, read: Callable[[], object]) -> None:
        self._path, self._read = os.fspath(path), read
        self._known: tuple[_Stamp, object] | None = None

    def __call__(self) -> object:
        stamp = _stamp(self._path)
        if self._known is None or self._known[0] != stamp:
            self._known = stamp, self._read()
        return self._known[1]


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
