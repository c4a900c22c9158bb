"""Adapter for the ledger on disk: one JSON line per fact, appended and fsynced before its action.

The reader skips a line that a crash left incomplete; ``append_line`` starts the next fact on a new
line. ``by`` is the lease term of the controller that wrote the line.
Format: ``docs/formats.md``, version 1.
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from Daddy.cluster.orchestrator.controller_types import Ledger
from Daddy.cluster.orchestrator.ledger_replay import LedgerEntry, fold, replay
from Daddy.core.atomic_files import append_line

VERSION = 1


class LedgerFile:
    """Opens the ledger of one run for writing by the controller of one lease term."""

    def __init__(self, path: Path, term: int) -> None:
        self._path = path
        self._term = term
        self.view: Ledger = replay(read_entries(path))

    def append(self, entry: LedgerEntry) -> None:
        """Append one fact and fsync it; raise OSError when it cannot be written."""
        append_line(self._path, _to_line(entry, self._term), durable=True)
        self.view = fold(self.view, entry)


def _to_line(entry: LedgerEntry, term: int) -> str:
    record = {"v": VERSION, "ts": round(entry.ts, 3), "by": term, "kind": entry.kind}
    if entry.token:
        record["token"] = entry.token
    return json.dumps({**record, **entry.data}, separators=(",", ":"), allow_nan=False)


def read_ledger(path: Path) -> Ledger:
    """Return the ledger in ``path``; parse the file again only if its size has changed."""
    return _replayed(path, path.stat().st_size if path.exists() else 0)


@lru_cache(maxsize=1)
def _replayed(path: Path, _size: int) -> Ledger:
    """Parse the file; lines are only appended, so an equal size means equal contents."""
    return replay(read_entries(path))


def read_entries(path: Path) -> Iterator[LedgerEntry]:
    """Yield every readable entry in the order written; none if the file is missing."""
    if path.exists():
        with path.open("rb") as stream:
            yield from (entry for line in stream if (entry := _parse(line)) is not None)


def _parse(line: bytes) -> LedgerEntry | None:
    try:
        record: Any = json.loads(line)
        if not isinstance(record, dict) or record.pop("v", None) != VERSION:
            return None
        record.pop("by", None)
        kind, ts, token = record.pop("kind"), record.pop("ts"), record.pop("token", "")
        return LedgerEntry(str(kind), float(ts), str(token), record)
    except (ValueError, KeyError, TypeError):
        return None
