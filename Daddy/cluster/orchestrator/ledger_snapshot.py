"""What the ledger's first bytes come to, kept beside it: who only looks need not read years of it.

It is never the truth: the controller replays all of the ledger. A snapshot that is damaged, that
other code made, or whose ledger is not the one that lies there, is passed over.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from Daddy.cluster.orchestrator.records import Attempt, Ledger, Orphan, Site
from Daddy.core.errors import FileError
from Daddy.core.files import read_bounded, sha256_hex, write_atomic

if TYPE_CHECKING:
    from pydantic import TypeAdapter

EVERY = 1 << 16
"""Bytes of the ledger between two snapshots: four days of four slots, a hundredth of a second."""
_MEANING = 1
"""Another number when entries come to mean something else, though the records look the same."""
_ENDS = 512
_LIMIT = 1 << 20
"""Bytes; of 250 attempts it has 80,000 to 160,000."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """The ledger after ``size`` bytes; ``ends``: sha256 of the last 512 of them."""

    made_by: str
    size: int
    ends: str
    ledger: Ledger


def keep(path: Path, size: int, ledger: Ledger) -> None:
    """Keep what the ``size`` bytes of the ledger in ``path`` come to.

    Nothing is kept where the file has become longer: somebody else wrote, and we do not know what.
    """
    with contextlib.suppress(OSError):  # what is not kept is read again
        if path.stat().st_size == size:
            snapshot = _Kept(_made_by(), size, _ends(path, size), ledger)
            left_out = {"ledger": {"live", "over"}}  # they follow from the rest
            data = _adapter().dump_json(snapshot, exclude=left_out, warnings=False)
            write_atomic(place(path), data, durable=False)


def kept(path: Path) -> tuple[Ledger, int]:
    """What is kept of the ledger in ``path``, and of how many of its bytes; none of 0 bytes."""
    try:
        data = read_bounded(place(path), _LIMIT)
        found = _adapter().validate_json(data)
        fits = found.made_by == _made_by() and found.ends == _ends(path, found.size)
    except (OSError, FileError, ValueError):
        return Ledger(), 0
    return (found.ledger, found.size) if fits else (Ledger(), 0)


def place(path: Path) -> Path:
    """Where the snapshot of the ledger in ``path`` lies."""
    return path.with_name("ledger-snapshot.json")


def _ends(path: Path, size: int) -> str:
    with path.open("rb") as stream:
        stream.seek(max(0, size - _ENDS))
        return sha256_hex(stream.read(min(size, _ENDS)))


def _made_by() -> str:
    """Which code: its records by the names of their fields."""
    names = [one.name for kind in (Ledger, Attempt, Site, Orphan) for one in fields(kind)]
    return sha256_hex(f"{_MEANING} {names}".encode())[:12]


@cache
def _adapter() -> TypeAdapter[_Kept]:
    """Made where a snapshot is: young runs have none, and ``status`` is waited for."""
    from pydantic import TypeAdapter

    return TypeAdapter(_Kept)
