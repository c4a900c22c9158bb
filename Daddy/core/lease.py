"""Leases on a shared disk: numbered terms in a folder, each created by exactly one process.

A term begins when ``term-000012.json`` is created and ends when ``term-000012.end.json`` is, by its
holder or by a process with proof that the holder is gone. Terms only grow, so a holder that was
suspended sees that a newer term fences it (:meth:`Lease.held`). Clocks of two machines are never
compared: a holder is silent while the *counter* in ``beat.json`` does not change by our clock.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import (
    DISK_FULL,
    canonical_json,
    create_exclusive,
    overwrite,
    read_json,
    write_json,
)
from Daddy.core.errors import FileError
from Daddy.core.host_and_processes import ProcessId, host_name, is_alive

_TERM = re.compile(r"term-(\d{6,})\.json")


@dataclass(frozen=True, slots=True)
class LeaseView:
    """The newest term of a lease: holder, reason of its end (or None), last heartbeat."""

    term: int
    holder: Mapping[str, Any]
    ended: str | None
    beat: Mapping[str, Any] = field(default_factory=dict)


def _term_path(folder: Path, term: int) -> Path:
    return folder / f"term-{term:06d}.json"


def _end_path(folder: Path, term: int) -> Path:
    return folder / f"term-{term:06d}.end.json"


def newest_term(folder: Path) -> int:
    """Return the highest term that ever began, 0 for none."""
    return newest_term_state(folder)[0]


def newest_term_state(folder: Path) -> tuple[int, bool]:
    """Return the newest term and True if it has ended, from one listing of the folder."""
    try:
        names = set(os.listdir(folder))  # noqa: PTH208 - only names are needed
    except (FileNotFoundError, NotADirectoryError):
        return 0, False
    terms = (int(match[1]) for name in names if (match := _TERM.fullmatch(name)))
    term = max(terms, default=0)
    return term, _end_path(folder, term).name in names


def is_holder_alive(holder: Mapping[str, Any]) -> bool | None:
    """Return True if the holder's process runs, None if it is on another host."""
    if holder.get("host") != host_name():
        return None
    try:
        return is_alive(ProcessId(int(holder["pid"]), float(holder["created"])))
    except (KeyError, TypeError, ValueError):
        return None


def read_lease(folder: Path) -> LeaseView | None:
    """Read the newest term; None when the lease was never held."""
    term = newest_term(folder)
    if term == 0:
        return None
    beat = _read(folder / "beat.json")
    return LeaseView(
        term=term,
        holder=_read(_term_path(folder, term)),
        ended=_read(_end_path(folder, term)).get("reason"),
        beat=beat if beat.get("term") == term else {},
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_json(path)
    except (FileNotFoundError, FileError):
        return {}


def end_term(folder: Path, term: int, reason: str, *, durable: bool = True) -> bool:
    """End a term of any holder; return False, and keep the first reason, if it had ended."""
    end = canonical_json({"term": term, "reason": reason})
    return create_exclusive(_end_path(folder, term), end, durable=durable)


def remove_term(folder: Path, term: int) -> None:
    """Remove the files of a term that ended long ago."""
    for path in (_term_path(folder, term), _end_path(folder, term)):
        path.unlink(missing_ok=True)


class Lease:
    """A term that this process holds until it releases it or is fenced by a newer one.

    ``durable``: wait for the disk, so that no power cut undoes a term.
    """

    def __init__(self, folder: Path, term: int, *, durable: bool = True) -> None:
        self._folder = folder
        self._durable = durable
        self.term = term
        self._counter = 0

    @classmethod
    def acquire(
        cls, folder: Path, holder: Mapping[str, Any], *, durable: bool = True
    ) -> Lease | None:
        """Begin the next term; None if the newest has not ended or another process was faster."""
        newest, ended = newest_term_state(folder)
        if newest and not ended:
            return None
        path = _term_path(folder, newest + 1)
        if not create_exclusive(path, canonical_json(dict(holder)), durable=durable):
            return None
        return cls(folder, newest + 1, durable=durable)

    @classmethod
    def resume(cls, folder: Path, term: int) -> Lease | None:
        """Continue a term that this process acquired before it executed its present program.

        The heartbeat's counter continues too. None when the term ended or a newer one began.
        """
        view = read_lease(folder)
        if view is None or view.term != term or view.ended is not None:
            return None
        lease = cls(folder, term)
        counter = view.beat.get("counter", 0)
        lease._counter = counter if isinstance(counter, int) else 0
        return lease

    def held(self) -> bool:
        """Return True while this term is the newest and has not been ended."""
        end = _end_path(self._folder, self.term)
        return newest_term(self._folder) == self.term and not end.exists()

    def beat(self, data: Mapping[str, Any] | None = None) -> None:
        """Write a heartbeat: the next counter value, and ``data``, to ``beat.json``.

        A full disk has no room for a second file: the heartbeat is written over the last one.
        """
        self._counter += 1
        beat = {**(data or {}), "term": self.term, "counter": self._counter}
        path = self._folder / "beat.json"
        try:
            write_json(path, beat, durable=False)
        except OSError as error:
            if error.errno not in DISK_FULL or not path.exists():  # no heartbeat to write over
                raise
            overwrite(path, canonical_json(beat))

    def release(self, reason: str) -> None:
        end_term(self._folder, self.term, reason, durable=self._durable)
