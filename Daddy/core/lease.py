"""Who holds a thing: numbered terms in a folder, first come by exclusive creation.

A term begins when ``term-000012.json`` is created and ends when ``term-000012.end.json`` is: by its
holder, or by whoever has proof that the holder is gone. Terms only grow, so an older holder that
wakes up sees that it is fenced (:meth:`Lease.held`). No clock of two machines is ever compared:
silence is how long the *counter* in ``beat.json`` has stood still on the judge's own clock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from Daddy.core.errors import FileError
from Daddy.core.files import create_exclusive, read_json, to_json, write_json

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
    if not folder.is_dir():
        return 0
    found = (_TERM.fullmatch(path.name) for path in folder.iterdir())
    return max((int(match.group(1)) for match in found if match), default=0)


def read_lease(folder: Path) -> LeaseView | None:
    """The newest term as it stands; None when nobody ever held it."""
    term = newest_term(folder)
    if term == 0:
        return None
    beat = _read(folder / "beat.json")
    return LeaseView(
        term=term,
        holder=_read(_term_path(folder, term)),
        ended=_read(_end_path(folder, term)).get("reason") if _ended(folder, term) else None,
        beat=beat if beat.get("term") == term else {},
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_json(path)
    except (FileNotFoundError, FileError):
        return {}


def _ended(folder: Path, term: int) -> bool:
    return _end_path(folder, term).exists()


def end_term(folder: Path, term: int, reason: str) -> bool:
    """End a term, whoever holds it; False when it had ended already. The first reason stays."""
    return create_exclusive(_end_path(folder, term), to_json({"term": term, "reason": reason}))


class Lease:
    """A term that this process holds until it releases it or is fenced."""

    def __init__(self, folder: Path, term: int) -> None:
        self._folder = folder
        self.term = term
        self._counter = 0

    @classmethod
    def claim(cls, folder: Path, holder: Mapping[str, Any]) -> Lease | None:
        """Begin the next term, or None when the newest one goes on or somebody was faster."""
        newest = newest_term(folder)
        if newest and not _ended(folder, newest):
            return None
        if not create_exclusive(_term_path(folder, newest + 1), to_json(dict(holder))):
            return None
        return cls(folder, newest + 1)

    def held(self) -> bool:
        """Whether this term still is the newest and has not been ended by anyone."""
        return newest_term(self._folder) == self.term and not _ended(self._folder, self.term)

    def beat(self, data: Mapping[str, Any] | None = None) -> None:
        """Prove life: the counter in ``beat.json`` moves, ``data`` rides along."""
        self._counter += 1
        beat = {**(data or {}), "term": self.term, "counter": self._counter}
        write_json(self._folder / "beat.json", beat)

    def release(self, reason: str) -> None:
        """End the term in good order."""
        end_term(self._folder, self.term, reason)
