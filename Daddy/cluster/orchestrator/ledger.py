"""Adapter for the ledger on disk: one JSON line per fact, appended and fsynced before it acts.

A line torn by a crash is passed over when reading and closed with a newline before the next
append, so that it can never swallow a later fact; ``by`` is the term of the controller that wrote.
Beside it lies a snapshot: the ledger after its first bytes, so that commands need not read years of
it. It is never the truth: the controller replays all of the ledger, and a snapshot that is damaged,
that other code made, or of other bytes than those that lie there, is passed over. Formats:
``docs/formats.md``, version 1.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from Daddy.cluster.orchestrator import history, records
from Daddy.cluster.orchestrator.history import Entry, fold, replay
from Daddy.cluster.orchestrator.records import Ledger
from Daddy.core.errors import FileError
from Daddy.core.files import append_line, read_bounded, sha256_hex, write_atomic

if TYPE_CHECKING:
    from pydantic import TypeAdapter

VERSION = 1
EVERY = 1 << 16
"""Bytes of the ledger between two snapshots: four days of four slots, a hundredth of a second."""
_LIMIT = 1 << 20
"""Bytes of a snapshot; of 250 attempts it has 80,000 to 160,000."""


class LedgerFile:
    """The ledger of one run, as held by the controller of one term."""

    def __init__(self, path: Path, term: int) -> None:
        self._path = path
        self._term = term
        self._close_torn_line()
        self.view: Ledger = replay(read_entries(path))
        self._kept = read_snapshot(path)[1]
        self._keep()

    def append(self, entry: Entry) -> None:
        """Write one fact and wait for the disk; OSError when it cannot be kept."""
        append_line(self._path, _to_line(entry, self._term), durable=True)
        self.view = fold(self.view, entry)
        self._keep()

    def _keep(self) -> None:
        """Now and then write a snapshot, of what the file says and not of what we know.

        Neither the disk nor what somebody else wrote there stops a controller for that.
        """
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            size = self._path.stat().st_size
            if size - self._kept >= EVERY:
                self._kept = size  # also where it fails: a full disk is not tried at every fact
                write_snapshot(self._path, size, recall(self._path, size))

    def _close_torn_line(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - 1))
            torn = size > 0 and stream.read(1) != b"\n"
        if torn:
            append_line(self._path, "", durable=True)


def _to_line(entry: Entry, term: int) -> str:
    record = {"v": VERSION, "ts": round(entry.ts, 3), "by": term, "kind": entry.kind}
    if entry.token:
        record["token"] = entry.token
    return json.dumps({**record, **entry.data}, separators=(",", ":"), allow_nan=False)


def recall(path: Path, until: int | None = None) -> Ledger:
    """The ledger after its first ``until`` bytes, by way of its snapshot: for commands."""
    known, size = read_snapshot(path)
    return fold(known, *read_entries(path, size, until))


def read_entries(path: Path, since: int = 0, until: int | None = None) -> Iterator[Entry]:
    """Every readable entry in the order written; none without a file.

    Of the lines that begin behind byte ``since`` and before byte ``until``.
    """
    if not path.exists():
        return
    with path.open("rb") as stream:
        at = stream.seek(since)
        for line in stream:
            if until is not None and at >= until:
                return
            at += len(line)
            if (entry := _parse(line)) is not None:
                yield entry


def _parse(line: bytes) -> Entry | None:
    try:
        record: Any = json.loads(line)
        if not isinstance(record, dict) or record.pop("v", None) != VERSION:
            return None
        record.pop("by", None)
        kind, ts, token = record.pop("kind"), record.pop("ts"), record.pop("token", "")
        return Entry(str(kind), float(ts), str(token), record)
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The ledger after ``size`` bytes, whose sha256 is ``of``; ``made_by``: sha256 of our code."""

    made_by: str
    size: int
    of: str
    ledger: Ledger


def snapshot_path(path: Path) -> Path:
    """The place of the snapshot of the ledger in ``path``."""
    return path.with_name("ledger-snapshot.json")


def write_snapshot(path: Path, size: int, ledger: Ledger) -> None:
    """Keep ``ledger``, told by the first ``size`` bytes in ``path``; they end with a line's end.

    Nothing is written where it cannot be kept.
    """
    with contextlib.suppress(OSError, ValueError):  # ValueError: a reason that is no text
        snapshot = _Snapshot(_made_by(), size, _hash(path, size), ledger)
        left_out = {"ledger": {"live", "over"}}  # they follow from the rest
        data = _adapter().dump_json(snapshot, exclude=left_out, warnings=False)
        write_atomic(snapshot_path(path), f"{sha256_hex(data)}\n".encode() + data, durable=False)


def read_snapshot(path: Path) -> tuple[Ledger, int]:
    """The snapshot of the ledger in ``path``, and of how many bytes; an empty one of 0 bytes."""
    with contextlib.suppress(OSError, FileError, ValueError):
        said, _, data = read_bounded(snapshot_path(path), _LIMIT).partition(b"\n")
        if said == sha256_hex(data).encode():
            found = _adapter().validate_json(data)
            if found.made_by == _made_by() and found.of == _hash(path, found.size):
                return found.ledger, found.size
    return Ledger(), 0


def _hash(path: Path, size: int) -> str:
    """Of the first ``size`` bytes; ValueError where they do not end a line."""
    with path.open("rb") as stream:
        data = stream.read(min(size, path.stat().st_size))
    if len(data) != size or not data.endswith(b"\n"):
        raise ValueError(f"{path} has no line that ends at byte {size}")
    return sha256_hex(data)


@cache
def _made_by() -> str:
    """The code that gives entries their meaning, and the records that tell it."""
    sources = [Path(module.__file__ or "").read_bytes() for module in (history, records)]
    return sha256_hex(b"".join(sources))


@cache
def _adapter() -> TypeAdapter[_Snapshot]:
    """Made where a snapshot is: young runs have none, and ``status`` is waited for."""
    from pydantic import TypeAdapter

    return TypeAdapter(_Snapshot)
