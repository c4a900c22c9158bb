"""Who holds a thing: numbered terms in a folder, first come by exclusive creation.

A term begins when ``term-000012.json`` is created and ends when ``term-000012.end.json`` is: by its
holder, or by whoever has proof that the holder is gone. Terms only grow, so an older holder that
wakes up sees that it is fenced (:meth:`Lease.held`). No clock of two machines is ever compared:
silence is how long the *counter* in ``beat.json`` has stood still on the judge's own clock.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import canonical_json, create_exclusive, read_json, write_json
from Daddy.core.errors import FileError
from Daddy.core.machine_info import ProcessId, host_name, is_alive

_TERM = re.compile(r"term-(\d{6,})\.json")


@dataclass(frozen=True, slots=True)
class LeaseView:
    """What anyone can read of a lease: the newest term, its holder, its end, its last beat."""

    term: int
    holder: Mapping[str, Any]
    ended: str | None
    beat: Mapping[str, Any] = field(default_factory=dict)


def _term_path(folder: Path, term: int) -> Path:
    return folder / f"term-{term:06d}.json"


def _end_path(folder: Path, term: int) -> Path:
    return folder / f"term-{term:06d}.end.json"


def newest_term(folder: Path) -> int:
    """The highest term that ever began; 0 when none did."""
    return newest_term_state(folder)[0]


def newest_term_state(folder: Path) -> tuple[int, bool]:
    """(newest term, whether it has ended) by names alone: one look, for who looks all the time."""
    try:
        names = set(os.listdir(folder))  # noqa: PTH208 - names are all that is wanted
    except (FileNotFoundError, NotADirectoryError):
        return 0, False
    terms = (int(match[1]) for name in names if (match := _TERM.fullmatch(name)))
    term = max(terms, default=0)
    return term, _end_path(folder, term).name in names


def is_holder_alive(holder: Mapping[str, Any]) -> bool | None:
    """Whether a lease's holder lives, by pid and creation time; None when it is on another host."""
    if holder.get("host") != host_name():
        return None
    try:
        return is_alive(ProcessId(int(holder["pid"]), float(holder["created"])))
    except (KeyError, TypeError, ValueError):
        return None


def read_lease(folder: Path) -> LeaseView | None:
    """The newest term as it stands; None when nobody ever held it."""
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
    """End a term, whoever holds it; False when it had ended already. The first reason stays."""
    end = canonical_json({"term": term, "reason": reason})
    return create_exclusive(_end_path(folder, term), end, durable=durable)


def remove_term(folder: Path, term: int) -> None:
    """Remove the files of a term that is long over."""
    for path in (_term_path(folder, term), _end_path(folder, term)):
        path.unlink(missing_ok=True)


class Lease:
    """A term that this process holds until it releases it or is fenced.

    ``durable``: the disk is waited for, so that a power cut takes no term back.
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
        """Begin the next term, or None when the newest one goes on or somebody was faster."""
        newest, ended = newest_term_state(folder)
        if newest and not ended:
            return None
        path = _term_path(folder, newest + 1)
        if not create_exclusive(path, canonical_json(dict(holder)), durable=durable):
            return None
        return cls(folder, newest + 1, durable=durable)

    @classmethod
    def resume(cls, folder: Path, term: int) -> Lease | None:
        """Go on with a term that this very process claimed before it became another program.

        The beat's counter goes on too. None when the term has ended or a newer one began.
        """
        view = read_lease(folder)
        if view is None or view.term != term or view.ended is not None:
            return None
        lease = cls(folder, term)
        counter = view.beat.get("counter", 0)
        lease._counter = counter if isinstance(counter, int) else 0
        return lease

    def held(self) -> bool:
        """Whether this term still is the newest and has not been ended by anyone."""
        over = _end_path(self._folder, self.term)
        return newest_term(self._folder) == self.term and not over.exists()

    def beat(self, data: Mapping[str, Any] | None = None) -> None:
        """Prove life: the counter in ``beat.json`` moves, ``data`` rides along."""
        self._counter += 1
        beat = {**(data or {}), "term": self.term, "counter": self._counter}
        write_json(self._folder / "beat.json", beat, durable=False)

    def release(self, reason: str) -> None:
        """End the term in good order."""
        end_term(self._folder, self.term, reason, durable=self._durable)
