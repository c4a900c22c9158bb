"""Adapter for the ledger on disk: one JSON line per fact, appended and fsynced before it acts.

A line torn by a crash is passed over when reading, and the next fact begins on a line of its own
(``append_line``); ``by`` is the term of the controller that wrote.
Format: ``docs/formats.md``, version 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from Daddy.cluster.orchestrator.controller_records import Ledger
from Daddy.cluster.orchestrator.ledger_replay import LedgerEntry, fold, replay
from Daddy.core.atomic_files import append_line

VERSION = 1


class LedgerFile:
    """The ledger of one run, as held by the controller of one term."""

    def __init__(self, path: Path, term: int) -> None:
        self._path = path
        self._term = term
        self.view: Ledger = replay(read_entries(path))

    def append(self, entry: LedgerEntry) -> None:
        """Write one fact and wait for the disk; OSError when it cannot be kept."""
        append_line(self._path, _to_line(entry, self._term), durable=True)
        self.view = fold(self.view, entry)


def _to_line(entry: LedgerEntry, term: int) -> str:
    record = {"v": VERSION, "ts": round(entry.ts, 3), "by": term, "kind": entry.kind}
    if entry.token:
        record["token"] = entry.token
    return json.dumps({**record, **entry.data}, separators=(",", ":"), allow_nan=False)


def read_ledger(path: Path) -> Ledger:
    """The ledger in ``path``; a month's is read in a tenth of a second, and again once it grew."""
    return _replayed(path, path.stat().st_size if path.exists() else 0)


@lru_cache(maxsize=1)
def _replayed(path: Path, _size: int) -> Ledger:
    """Facts are only appended: of one size there is one ledger."""
    return replay(read_entries(path))


def read_entries(path: Path) -> Iterator[LedgerEntry]:
    """Every readable entry in the order written; none without a file."""
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
