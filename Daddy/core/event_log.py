"""The event log of a run: one JSON-lines file per writer, one envelope for all events.

Status, dashboard, plots and the demo's summary read only these files. Each writer has a file of
its own; it writes about itself, or about sandboxes, which write nothing. Lines are bounded; readers
skip an incomplete last line, as a killed writer leaves it. Envelope: ``v, ts, run, workload,
source{kind,id,index}, event, step, data``.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import append_line
from Daddy.core.clock import Clock
from Daddy.core.name_validation import new_incarnation

VERSION = 1
EVENTS = frozenset({"state", "progress", "metric", "result", "error", "log"})
LINE_LIMIT = 64 * 1024
"""Largest line in bytes: a writer refuses a longer event, a reader skips a longer line."""

CLAIMED = frozenset({"progress", "metric", "log"})
SOURCE_EVENTS, SOURCE_LINE = 1000, 2048
"""Most events of these kinds about one sandbox, and the largest line of any in bytes."""

NEWEST_FILES, NEWEST_BYTES = 32, 4 << 20
"""Files, and bytes at the end of each, that are read as newest: some 30 hours of four slots."""


def _log(event: str, data: Mapping[str, object]) -> None:
    """Log an event: ``error`` at ERROR, state or log with a text at INFO, others at DEBUG."""
    import logging  # by writers only: readers, such as `status`, start without it

    if not logging.getLogger().handlers:
        return  # no log was set up: the program prints to a person's screen
    levels = {"error": logging.ERROR, "state": logging.INFO, "log": logging.INFO}
    text = data.get("text") or data.get("reason") if event in levels else None
    level = levels[event] if text else logging.ERROR if event == "error" else logging.DEBUG
    if (logger := logging.getLogger(__name__)).isEnabledFor(level):  # each update writes events
        line = text or f"{event} {dict(data)}"
        logger.log(level, "%s", line, stacklevel=3)  # the writer's module


@dataclass(frozen=True)
class EventSource:
    """Names one of a host's sandboxes. ValueError for other characters than a file name has."""

    kind: str
    id: str
    index: int = 0

    def __post_init__(self) -> None:
        for name in (self.kind, self.id):
            if re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,63}", name) is None:
                raise ValueError(f"{name[:80]!r} cannot name a source of events")


class EventWriter:
    """Appends a program's events, and those about its sandboxes, to a file of its own."""

    def __init__(
        self, folder: Path, run: str, workload: str, kind: str, ident: str, clock: Clock
    ) -> None:
        self._clock = clock
        self._head = {"v": VERSION, "run": run, "workload": workload}
        self._own = {"kind": kind, "id": ident, "index": 0}
        self._claims: Counter[EventSource] = Counter()
        self.dropped: Counter[EventSource] = Counter()
        """Sandbox → number of its events that were over a bound."""
        self.path = folder / f"{kind}-{ident}-{new_incarnation()}.jsonl"

    def write(self, event: str, step: int, data: Mapping[str, object]) -> None:
        """Append one event; ValueError for an unknown kind of event or an oversized line."""
        _check_kind(event)
        line = self._line(self._own, event, step, data, LINE_LIMIT)
        _log(event, data)  # before the event: the disk of events may be full
        append_line(self.path, line)

    def write_about(
        self, source: EventSource, event: str, step: int, data: Mapping[str, object]
    ) -> bool:
        """Append one event about a sandbox; nothing goes into the log of this program.

        Return False, and count the event in `dropped`, if its line is over 2 KiB or holds a number
        that is not finite, and after 1,000 events about `source` other than the host's own words:
        state, result, error. ValueError for an unknown kind of event.
        """
        _check_kind(event)
        claimed = event in CLAIMED
        try:
            line = self._line(asdict(source), event, step, data, SOURCE_LINE)
        except (ValueError, RecursionError):
            line = ""
        if not line or (claimed and self._claims[source] >= SOURCE_EVENTS):
            self.dropped[source] += 1
            return False
        self._claims[source] += claimed
        append_line(self.path, line)
        return True

    def _line(
        self,
        source: Mapping[str, object],
        event: str,
        step: int,
        data: Mapping[str, object],
        limit: int,
    ) -> str:
        record = {
            **self._head,
            "source": source,
            "ts": round(self._clock.now(), 3),
            "event": event,
            "step": step,
            "data": dict(data),
        }
        line = json.dumps(record, separators=(",", ":"), allow_nan=False)
        if len(line) > limit:
            raise ValueError(f"an event of {len(line)} bytes is over the limit of {limit}")
        return line


def _check_kind(event: str) -> None:
    if event not in EVENTS:
        raise ValueError(f"the event {event!r} is none of {sorted(EVENTS)}")


def read_events(
    folder: Path, pattern: str = "*.jsonl", containing: bytes = b""
) -> Iterator[dict[str, Any]]:
    """Yield every readable event of every writer, file by file, in the order written.

    ``pattern`` selects files, such as ``learner-*.jsonl``; only lines with the bytes ``containing``
    are parsed, which is fast when few events among a month's are wanted.
    """
    for path in sorted(folder.glob(pattern)):
        yield from _read_file(path, containing)


def read_newest_events(folder: Path, pattern: str, containing: bytes) -> Iterator[dict[str, Any]]:
    """Yield the events in the last 4 MiB of each of the 32 newest files, oldest file first."""
    paths = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime)
    for path in paths[-NEWEST_FILES:]:
        skipped = max(0, path.stat().st_size - NEWEST_BYTES)
        yield from _read_file(path, containing, skipped)


def _read_file(path: Path, containing: bytes, skipped: int = 0) -> Iterator[dict[str, Any]]:
    with path.open("rb") as stream:
        stream.seek(skipped)  # the rest of a line that begins before does not parse
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
    """Reads the events that were added since the last call, for live displays."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}

    def read_new(self) -> list[dict[str, Any]]:
        """Return the events in complete lines written since the last call, oldest first."""
        paths = sorted(self._folder.glob("*.jsonl"))
        records = [record for path in paths for record in self._advance(path)]
        return sorted(records, key=lambda record: float(record["ts"]))

    def _advance(self, path: Path) -> list[dict[str, Any]]:
        with path.open("rb") as stream:
            stream.seek(self._offsets.get(path, 0))
            data = stream.read()
        complete, newline, _ = data.rpartition(b"\n")
        self._offsets[path] = self._offsets.get(path, 0) + len(complete) + len(newline)
        parsed = (_parse(line) for line in complete.split(b"\n") if line)
        return [record for record in parsed if record is not None]
