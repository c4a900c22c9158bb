"""What happened: one JSON-lines file per writer, one envelope for all.

Status, dashboard, plots and the demo's summary read only these files. A writer never names another
source, lines are bounded, and a torn last line (a writer killed in mid-write) is passed over.
Envelope: ``v, ts, run, workload, source{kind,id,index}, event, step, data``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import append_line
from Daddy.core.clock import Clock
from Daddy.core.name_validation import new_incarnation

VERSION = 1
EVENTS = frozenset({"state", "progress", "metric", "result", "error", "log"})
LINE_LIMIT = 64 * 1024
"""Bytes of one line: a writer shortens nothing, it refuses; a reader passes longer lines over."""

NEWEST_FILES, NEWEST_BYTES = 32, 4 << 20
"""Writers, and bytes of each, that count as newest: some 30 hours of four slots."""


def _log(event: str, data: Mapping[str, object]) -> None:
    """Log errors as errors, events with a text as news, and all others for ``-v`` alone."""
    import logging  # by writers only: readers, such as `status`, start without it

    if not logging.getLogger().handlers:
        return  # a person's screen, which says such things in its own words
    levels = {"error": logging.ERROR, "state": logging.INFO, "log": logging.INFO}
    text = data.get("text") or data.get("reason") if event in levels else None
    level = levels[event] if text else logging.ERROR if event == "error" else logging.DEBUG
    line = text or f"{event} {dict(data)}"
    logging.getLogger(__name__).log(level, "%s", line, stacklevel=3)  # the writer's module


class EventWriter:
    """Appends events of one source to a file of its own."""

    def __init__(
        self,
        folder: Path,
        run: str,
        workload: str,
        kind: str,
        ident: str,
        clock: Clock,
        index: int = 0,
    ) -> None:
        self._clock = clock
        self._head = {
            "v": VERSION,
            "run": run,
            "workload": workload,
            "source": {"kind": kind, "id": ident, "index": index},
        }
        self.path = folder / f"{kind}-{ident}-{new_incarnation()}.jsonl"

    def write(self, event: str, step: int, data: Mapping[str, object]) -> None:
        """Append one event; ValueError for an unknown kind of event or an oversized line."""
        if event not in EVENTS:
            raise ValueError(f"{event!r} is none of {sorted(EVENTS)}")
        _log(event, data)
        record = {
            **self._head,
            "ts": round(self._clock.now(), 3),
            "event": event,
            "step": step,
            "data": dict(data),
        }
        line = json.dumps(record, separators=(",", ":"), allow_nan=False)
        if len(line) > LINE_LIMIT:
            raise ValueError(f"an event of {len(line)} bytes is over the limit of {LINE_LIMIT}")
        append_line(self.path, line)


def read_events(
    folder: Path, pattern: str = "*.jsonl", containing: bytes = b""
) -> Iterator[dict[str, Any]]:
    """Every readable event of every writer, file by file, in the order written.

    ``pattern`` narrows the files, such as ``learner-*.jsonl``; ``containing`` the lines that are
    parsed at all, for whoever looks for a few among a month's.
    """
    for path in sorted(folder.glob(pattern)):
        yield from _read_file(path, containing)


def read_newest_events(folder: Path, pattern: str, containing: bytes) -> Iterator[dict[str, Any]]:
    """The newest events alone, for looks that must not read a month: the ends of the last files."""
    paths = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime)
    for path in paths[-NEWEST_FILES:]:
        skipped = max(0, path.stat().st_size - NEWEST_BYTES)
        yield from _read_file(path, containing, skipped)


def _read_file(path: Path, containing: bytes, skipped: int = 0) -> Iterator[dict[str, Any]]:
    with path.open("rb") as stream:
        stream.seek(skipped)  # a line that is cut there does not parse
        for line in stream:
            if len(line) > LINE_LIMIT or containing not in line:
                continue
            if (record := _parse(line)) is not None:
                yield record


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and record.get("v") == VERSION else None


class EventTail:
    """Reads events that were added since the last look, for live displays."""

    def __init__(self, folder: Path, pattern: str = "*.jsonl") -> None:
        self._folder = folder
        self._pattern = pattern
        self._offsets: dict[Path, int] = {}

    def read_new(self) -> list[dict[str, Any]]:
        """Complete lines written since the last call, oldest first by stamp."""
        paths = sorted(self._folder.glob(self._pattern))
        records = [record for path in paths for record in self._advance(path)]
        return sorted(records, key=lambda record: float(record["ts"]))

    def _advance(self, path: Path) -> list[dict[str, Any]]:
        with path.open("rb") as stream:
            stream.seek(self._offsets.get(path, 0))
            data = stream.read()
        whole, newline, _ = data.rpartition(b"\n")
        self._offsets[path] = self._offsets.get(path, 0) + len(whole) + len(newline)
        parsed = (_parse(line) for line in whole.split(b"\n") if line)
        return [record for record in parsed if record is not None]
