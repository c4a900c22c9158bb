"""What a soak's witnesses say: Slurm's own logs, the jobs' diaries, the list of injected faults.

Everything is text on disk, read after the run; times are wall seconds of this one machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

_FIELD = re.compile(r"(\w+)=(\S*)")
_LINE = re.compile(r"\[(?P<at>[0-9T:.-]+)\] (?P<text>.*)")
_BEGAN = re.compile(r"sched: Allocate JobId=(\d+) |_start_job: Started JobId=(\d+) ")
_DONE = re.compile(r"_job_complete: JobId=(\d+) done")


@dataclass(frozen=True)
class Ran:
    """One job's stay on a node, by slurmctld's job completion log."""

    job_id: int
    token: str
    node: str
    begun: float
    ended: float
    state: str
    exit_code: int


@dataclass(frozen=True)
class Fault:
    """What was done to the cluster, and for how long; ``hit`` names the node or the job's token."""

    kind: str
    begun: float
    ended: float
    hit: str = ""


@dataclass
class Diary:
    """One learner process in its own words."""

    token: str
    slot: int
    term: int
    born: float
    pid: int
    first_step: float | None = None
    last_step: float = 0.0
    saves: list[float] = field(default_factory=list)
    drain: float | None = None
    bye: float | None = None


def read_completions(text: str, log: str, mark: str) -> list[Ran]:
    """Jobs whose name begins with ``mark``, times sharpened by slurmctld's own log.

    A killed slurmctld may come back not knowing that a job has ended, and complete it once more:
    the stay lasts until its last word, and it ended as its first word says.
    """
    begins, ends = _events(log)
    found: dict[tuple[int, str], Ran] = {}
    for line in text.splitlines():
        row = dict(_FIELD.findall(line))
        if not row.get("Name", "").startswith(mark) or row["StartTime"] == "Unknown":
            continue
        job_id, token = int(row["JobId"]), row["Name"].rsplit("-", 1)[1]
        begun, ended = _stamp(row["StartTime"]), _stamp(row["EndTime"])
        ended = _sharper(ended, ends.get(job_id, []))
        before = found.get((job_id, token))
        if before is not None:
            found[job_id, token] = replace(before, ended=max(ended, before.ended))
            continue
        found[job_id, token] = Ran(
            job_id=job_id,
            token=token,
            node=row["NodeList"],
            begun=_sharper(begun, begins.get(job_id, [])),
            ended=ended,
            state=row["JobState"],
            exit_code=int(row["ExitCode"].split(":")[0]),
        )
    return sorted(found.values(), key=lambda ran: ran.begun)


def _events(log: str) -> tuple[dict[int, list[float]], dict[int, list[float]]]:
    begins: dict[int, list[float]] = {}
    ends: dict[int, list[float]] = {}
    for line in log.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        if (began := _BEGAN.search(match["text"])) is not None:
            begins.setdefault(int(began[1] or began[2]), []).append(_stamp(match["at"]))
        elif (done := _DONE.search(match["text"])) is not None:
            ends.setdefault(int(done[1]), []).append(_stamp(match["at"]))
    return begins, ends


def _stamp(text: str) -> float:
    """Slurm writes local time without a zone, and so does this read it."""
    return datetime.fromisoformat(text).timestamp()


def _sharper(second: float, exact: list[float]) -> float:
    """The moment in milliseconds that belongs to a time in whole seconds."""
    return next((one for one in exact if -1.0 <= one - second < 2.0), second)


def read_diaries(folder: Path) -> list[Diary]:
    """Every learner's own notes."""
    found = (_read_diary(path) for path in sorted(folder.glob("*.jsonl")))
    return [diary for diary in found if diary is not None]


def _read_diary(path: Path) -> Diary | None:
    diary: Diary | None = None
    for note in _notes(path):
        what, at = note["what"], float(str(note["at"]))
        if what == "born":
            token, slot, term = str(note["token"]), int(str(note["slot"])), int(str(note["term"]))
            diary = Diary(token, slot, term, at, int(str(note["pid"])))
        elif diary is not None:
            _write(diary, str(what), at)
    return diary


def _notes(path: Path) -> Iterator[dict[str, object]]:
    for line in path.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:  # killed while it wrote
            return


def _write(diary: Diary, what: str, at: float) -> None:
    if what == "step":
        diary.first_step = diary.first_step or at
        diary.last_step = at
    elif what == "save":
        diary.saves.append(at)
    elif what == "drain":
        diary.drain = at
    elif what == "bye":
        diary.bye = at
