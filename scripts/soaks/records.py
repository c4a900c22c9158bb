"""Reads the logs of a soak: Slurm's logs and the learners' diaries; defines injected faults.

All files are read after the run; times are wall seconds of this one machine.
"""

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
    """Holds one run of a job on a node, from slurmctld's job completion log."""

    job_id: int
    token: str
    node: str
    begun: float
    ended: float
    state: str
    exit_code: int


@dataclass(frozen=True)
class Fault:
    """Holds an injected fault and its duration; ``hit``: node, token or empty."""

    kind: str
    begun: float
    ended: float
    hit: str = ""


@dataclass
class Diary:
    """Holds the times that one learner process logged."""

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
    """Return the jobs whose name begins with ``mark``, with exact times from slurmctld's log.

    A killed and restarted slurmctld may log the end of a job again: the last line has the end time,
    the first line the state and exit code.
    """
    begins, ends = _events(log)
    jobs: dict[tuple[int, str], Ran] = {}
    for line in text.splitlines():
        row = dict(_FIELD.findall(line))
        if not row.get("Name", "").startswith(mark) or row["StartTime"] == "Unknown":
            continue
        job_id, token = int(row["JobId"]), row["Name"].rsplit("-", 1)[1]
        begun, ended = _stamp(row["StartTime"]), _stamp(row["EndTime"])
        ended = _exact_time(ended, ends.get(job_id, []))
        before = jobs.get((job_id, token))
        if before is not None:
            jobs[job_id, token] = replace(before, ended=max(ended, before.ended))
            continue
        jobs[job_id, token] = Ran(
            job_id=job_id,
            token=token,
            node=row["NodeList"],
            begun=_exact_time(begun, begins.get(job_id, [])),
            ended=ended,
            state=row["JobState"],
            exit_code=int(row["ExitCode"].split(":")[0]),
        )
    return sorted(jobs.values(), key=lambda ran: ran.begun)


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
    """Convert Slurm's local time, which has no time zone."""
    return datetime.fromisoformat(text).timestamp()


def _exact_time(second: float, exact: list[float]) -> float:
    """Return the time in milliseconds that belongs to a time in whole seconds."""
    return next((time for time in exact if -1.0 <= time - second < 2.0), second)


def read_diaries(folder: Path) -> list[Diary]:
    """Read every learner's diary."""
    diaries = (_read_diary(path) for path in sorted(folder.glob("*.jsonl")))
    return [diary for diary in diaries if diary is not None]


def _read_diary(path: Path) -> Diary | None:
    diary: Diary | None = None
    for entry in _entries(path):
        event, at = entry["what"], float(str(entry["at"]))
        if event == "born":
            token, slot, term = (str(entry[name]) for name in ("token", "slot", "term"))
            diary = Diary(token, int(slot), int(term), at, int(str(entry["pid"])))
        elif diary is not None:
            _add(diary, str(event), at)
    return diary


def _entries(path: Path) -> Iterator[dict[str, object]]:
    for line in path.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:  # last line of a killed learner
            return


def _add(diary: Diary, event: str, at: float) -> None:
    if event == "step":
        diary.first_step = diary.first_step or at
        diary.last_step = at
    elif event == "save":
        diary.saves.append(at)
    elif event == "drain":
        diary.drain = at
    elif event == "bye":
        diary.bye = at
