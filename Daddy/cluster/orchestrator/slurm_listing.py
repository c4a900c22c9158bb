"""Pure: what squeue prints, as our records. One listing format, no guessing.

A listing with any line that cannot be read is no listing: half an answer would make running jobs
look gone. Format: squeue(1), Slurm 22.05.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from Daddy.cluster.orchestrator.records import JobState, QueueJob
from Daddy.cluster.orchestrator.slurm_marks import OURS, job_name, run_of, token_of
from Daddy.cluster.orchestrator.slurm_reasons import waits_for
from Daddy.cluster.orchestrator.slurm_states import read_exit_code, state_of
from Daddy.core.duration import parse_duration

_WIDTHS = {
    "JobID": 16,
    "State": 20,
    "Reason": 96,
    "StartTime": 20,
    "EndTime": 20,
    "exit_code": 12,
    "NodeList": 64,
    "RestartCnt": 8,
    "TimeLimit": 20,
    "Partition": 48,
    "QOS": 32,
    "tres-per-node": 48,
    "Name": 96,
    "Comment": 128,
}
FIELDS = tuple(_WIDTHS)
_MARK = "|"
LISTING = ",".join(f"{name}:{width}{_MARK}" for name, width in _WIDTHS.items())
"""The argument of ``squeue --Format``: every field padded and closed by a bar."""
_ID = re.compile(r"(\d+)(?:[_+].*)?")
"""A job's, an array's task (``7_1``) or a part of a heterogeneous job (``7+1``)."""
_NOTHING = ("", "None", "N/A", "(null)")

Row = Mapping[str, str]


class GarbledListingError(ValueError):
    """A line of the listing is not in the format that was asked for."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The jobs of one run, and the person's others."""

    jobs: tuple[QueueJob, ...]
    others: tuple[QueueJob, ...]
    rows: Mapping[int, Row]
    """The cells of those that were asked for, by job id."""
    renamed: Mapping[str, str]
    """Names of our jobs that only their comments tell, by token."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a job of ours was to be."""

    name: str
    comment: str
    limit_s: int
    request: Mapping[str, str | int]


def parse_listing(text: str, run_id: str, wanted: Mapping[int, object] | None = None) -> Listing:
    """A listing made with :data:`LISTING`; cells are kept of the job ids ``wanted``.

    Raises GarbledListingError at the first line that is not whole.
    """
    jobs: list[QueueJob] = []
    others: list[QueueJob] = []
    kept: dict[int, Row] = {}
    renamed: dict[str, str] = {}
    for line in text.split("\n"):
        if not line or line.isspace():
            continue
        row = _split(line)
        job = _to_job(row, run_id)
        (jobs if job.token else others).append(job)
        if wanted and job.job_id in wanted:
            kept[job.job_id] = row
        if job.token and row["Name"] != job_name(run_id, job.token):
            renamed[job.token] = row["Name"]
    return Listing(tuple(jobs), tuple(others), kept, renamed)


def _split(line: str) -> dict[str, str]:
    """A stranger's name or comment may hold bars: they come last, and ours hold none."""
    parts = line.split(_MARK)
    more = len(parts) - len(FIELDS) - 1
    if more < 0 or parts[-1].strip() or (more and OURS.search(line)):
        raise GarbledListingError(f"a line of squeue has {len(parts) - 1} fields: {line[:80]!r}")
    row = {name: part.strip() for name, part in zip(FIELDS, parts, strict=False)}
    if not _ID.fullmatch(row["JobID"]) or not row["State"]:
        raise GarbledListingError(f"a line of squeue names no job: {line[:80]!r}")
    return row


def _to_job(row: Row, run_id: str) -> QueueJob:
    """A task of an array is no job of ours, whatever it calls itself."""
    token, other = "", ""
    if row["JobID"].isdigit():
        token = token_of(run_id, row["Name"], row["Comment"]) or ""
        other = "" if token else run_of(row["Name"], row["Comment"])
    state = state_of(row["State"])
    pending = state is JobState.PENDING
    why = "" if row["Reason"] in _NOTHING else row["Reason"]
    starts = _stamp(row["StartTime"])
    facts: dict[str, object] = {"waits": waits_for(why)} if pending and why else {}
    if pending:
        facts["expected_ts"] = starts
    else:
        facts["started_ts"], facts["ends_ts"] = starts, _stamp(row["EndTime"])
    if state is JobState.ENDED:
        facts["exit_code"] = read_exit_code(row["exit_code"])
    return QueueJob(
        int(_ID.sub(r"\1", row["JobID"])),
        token,
        state,
        row["State"],
        why,
        row["NodeList"],
        restarts=int(row["RestartCnt"]) if row["RestartCnt"].isdigit() else 0,
        limit_s=read_limit(row["TimeLimit"]),
        run_id=other,
        **facts,  # type: ignore[arg-type]
    )


def _stamp(text: str) -> float | None:
    return float(text) if text.isdigit() else None


def read_limit(text: str) -> int | None:
    """Seconds of ``D-HH:MM:SS``, ``H:MM:SS`` or ``M:SS``; None for words such as UNLIMITED."""
    try:
        return parse_duration(text) if ":" in text else None
    except ValueError:
        return None


def differences(asked: Asked, row: Row) -> tuple[str, ...]:
    """What the scheduler made of a submission that was asked for otherwise, each in words."""
    wished = {
        "Partition": str(asked.request.get("partition", "")),
        "QOS": str(asked.request.get("qos", "")),
        "tres-per-node": str(asked.request.get("gres", "")),
        "Name": asked.name,
        "Comment": asked.comment,
    }
    found = [
        f"{name} is {row[name]!r}, {wish!r} was asked for"
        for name, wish in wished.items()
        if wish and row[name].removeprefix("gres:").removeprefix("gres/") != wish
    ]
    limit, minutes = read_limit(row["TimeLimit"]), -(-asked.limit_s // 60)
    if limit is not None and limit != 60 * minutes:
        found.append(f"TimeLimit is {row['TimeLimit']}, {minutes} minutes were asked for")
    return tuple(found)
