"""What the ledger's first bytes come to, kept beside it: who only looks need not read years of it.

It is never the truth: the controller replays all of the ledger. A snapshot that is damaged, that
other code made, or of other bytes than those that lie there, is passed over.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from Daddy.cluster.orchestrator import history, records
from Daddy.cluster.orchestrator.records import Ledger
from Daddy.core.errors import FileError
from Daddy.core.files import read_bounded, sha256_hex, write_atomic

if TYPE_CHECKING:
    from pydantic import TypeAdapter

EVERY = 1 << 16
"""Bytes of the ledger between two snapshots: four days of four slots, a hundredth of a second."""
_LIMIT = 1 << 20
"""Bytes; of 250 attempts it has 80,000 to 160,000."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """The ledger after ``size`` bytes, whose sha256 is ``of``; ``made_by``: sha256 of our code."""

    made_by: str
    size: int
    of: str
    ledger: Ledger


def keep(path: Path, size: int, ledger: Ledger) -> None:
    """Keep what the first ``size`` bytes in ``path`` come to; they end with a line's end.

    What cannot be kept is read again: it stops nobody.
    """
    with contextlib.suppress(OSError, ValueError):  # ValueError: a reason that is no text
        snapshot = _Kept(_made_by(), size, _hash(path, size), ledger)
        left_out = {"ledger": {"live", "over"}}  # they follow from the rest
        data = _adapter().dump_json(snapshot, exclude=left_out, warnings=False)
        write_atomic(place(path), f"{sha256_hex(data)}\n".encode() + data, durable=False)


def kept(path: Path) -> tuple[Ledger, int]:
    """What is kept of the ledger in ``path``, and of how many of its bytes; none of 0 bytes."""
    try:
        said, _, data = read_bounded(place(path), _LIMIT).partition(b"\n")
        if said != sha256_hex(data).encode():
            return Ledger(), 0
        found = _adapter().validate_json(data)
        fits = found.made_by == _made_by() and found.of == _hash(path, found.size)
    except (OSError, FileError, ValueError):
        return Ledger(), 0
    return (found.ledger, found.size) if fits else (Ledger(), 0)


def place(path: Path) -> Path:
    """Where the snapshot of the ledger in ``path`` lies."""
    return path.with_name("ledger-snapshot.json")


def _hash(path: Path, size: int) -> str:
    """Of the first ``size`` bytes; ValueError where they do not end a line."""
    with path.open("rb") as stream:
        data = stream.read(min(size, path.stat().st_size))
    if len(data) != size or not data.endswith(b"\n"):
        raise ValueError(f"{path} has no line that ends at byte {size}")
    return sha256_hex(data)


@cache
def _made_by() -> str:
    """Which code: what entries mean, and the records that tell it."""
    sources = [Path(module.__file__ or "").read_bytes() for module in (history, records)]
    return sha256_hex(b"".join(sources))


@cache
def _adapter() -> TypeAdapter[_Kept]:
    """Made where a snapshot is: young runs have none, and ``status`` is waited for."""
    from pydantic import TypeAdapter

    return TypeAdapter(_Kept)
