"""Pure: what Slurm prints, as our records. One listing format, one table of states, no guessing.

A listing with any line that cannot be read is no listing: half an answer would make running jobs
look gone. Words of states that are not in the table count as running, the choice that changes
nothing. Formats and states: squeue(1), Slurm 22.05.
"""

from __future__ import annotations

import re

from Daddy.cluster.orchestrator.records import JobState, QueueJob

FIELDS = (
    "JobID",
    "State",
    "Reason",
    "StartTime",
    "EndTime",
    "exit_code",
    "NodeList",
    "Name",
    "Comment",
)
_WIDTH = {"Comment": 256, "Name": 256, "NodeList": 64, "Reason": 128}
_DEFAULT_WIDTH = 32
_MARK = "|"

LISTING = ",".join(f"{name}:{_WIDTH.get(name, _DEFAULT_WIDTH)}{_MARK}" for name in FIELDS)
"""The argument of ``squeue --Format``: every field padded and closed by a bar."""

_PENDING = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
_ENDED = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    }
)

_COMMENT = re.compile(r"daddy/(?P<run>[^/]+)/(?P<number>\d+)/(?P<token>[0-9a-f]{12})")
_NAME = re.compile(r"daddy-(?P<run>.+)-(?P<token>[0-9a-f]{12})")
_OURS = re.compile(r"daddy[-/]")

FATAL_REFUSALS = (
    "Invalid account",
    "Invalid partition",
    "invalid partition",
    "Invalid qos",
    "Requested node configuration is not available",
    "Requested time limit is invalid",
    "Invalid generic resource",
    "Invalid feature specification",
    "Memory specification can not be satisfied",
    "Unable to open file",
    "User's group not permitted",
)
"""Words in a refusal of sbatch that no waiting will change."""


class GarbledListingError(ValueError):
    """A line of the listing is not in the format that was asked for."""


def job_comment(run_id: str, number: int, token: str) -> str:
    """What travels in ``--comment``: whose the job is, across restarts and lost files."""
    return f"daddy/{run_id}/{number}/{token}"


def job_name(run_id: str, token: str) -> str:
    """What ``squeue`` shows; carries the token a second time."""
    return f"daddy-{run_id}-{token}"


def token_of(run_id: str, name: str, comment: str) -> str | None:
    """The token of a job of run ``run_id``; None when the job is not ours."""
    for pattern, text in ((_COMMENT, comment), (_NAME, name)):
        match = pattern.fullmatch(text)
        if match and match["run"] == run_id:
            return match["token"]
    return None


def state_of(word: str) -> JobState:
    """Slurm's state (``CANCELLED by 0`` and ``COMPLETED+`` included) as ours."""
    first = word.split(maxsplit=1)[0].rstrip("+") if word.split() else ""
    if first in _PENDING:
        return JobState.PENDING
    return JobState.ENDED if first in _ENDED else JobState.RUNNING


def parse_listing(text: str, run_id: str) -> tuple[tuple[QueueJob, ...], int]:
    """Our jobs in a listing made with :data:`LISTING`, and how many jobs are somebody's else.

    Raises GarbledListingError at the first line that is not whole.
    """
    rows = [_split(line) for line in text.split("\n") if line.strip()]
    ours = [job for row in rows if (job := _to_job(row, run_id)) is not None]
    return tuple(ours), len(rows) - len(ours)


def _split(line: str) -> dict[str, str]:
    """A stranger's name or comment may hold bars: they come last, and ours hold none."""
    parts = [part.strip() for part in line.split(_MARK)]
    more = len(parts) - len(FIELDS) - 1
    if more < 0 or parts[-1] or (more and _OURS.search(line)):
        raise GarbledListingError(f"a line of squeue has {len(parts) - 1} fields: {line[:80]!r}")
    row = dict(zip(FIELDS, parts, strict=False))
    if not row["JobID"].split("_")[0].isdigit() or not row["State"]:
        raise GarbledListingError(f"a line of squeue names no job: {line[:80]!r}")
    return row


def _to_job(row: dict[str, str], run_id: str) -> QueueJob | None:
    token = token_of(run_id, row["Name"], row["Comment"])
    if token is None or not row["JobID"].isdigit():
        return None
    state = state_of(row["State"])
    return QueueJob(
        job_id=int(row["JobID"]),
        token=token,
        state=state,
        word=row["State"],
        why="" if row["Reason"] == "None" else row["Reason"],
        node=row["NodeList"],
        started_ts=None if state is JobState.PENDING else _stamp(row["StartTime"]),
        ends_ts=_stamp(row["EndTime"]),
        exit_code=_exit_code(row["exit_code"]) if state is JobState.ENDED else None,
    )


def _stamp(text: str) -> float | None:
    return float(text) if text.isdigit() else None


def _exit_code(text: str) -> int | None:
    """What the batch program returned, 128 + n after signal n.

    Slurm 22.05 prints the wait status (2816 is exit code 11); newer ones may print ``11:0``.
    """
    code, _, number = text.partition(":")
    if not code.isdigit() or (number and not number.isdigit()):
        return None
    returned, killed = (int(code), int(number)) if number else divmod(int(code), 256)
    return 128 + killed % 128 if killed % 128 else returned


def parse_job_id(stdout: str) -> int | None:
    """The id that ``sbatch --parsable`` printed, whatever a site's plugins print around it."""
    lines = [line.strip() for line in stdout.splitlines()]
    found = [match for line in lines if (match := re.fullmatch(r"(\d+)(;\S+)?", line))]
    return int(found[-1][1]) if found else None


def refused_for_good(stderr: str) -> bool:
    """Whether sbatch's words mean that asking again cannot help."""
    return any(words in stderr for words in FATAL_REFUSALS)


def submit_limit_reached(stderr: str) -> bool:
    """Whether the site counts pending jobs and the count is full."""
    return "MaxSubmitJob" in stderr


def answered(stderr: str) -> bool:
    """Whether a failed sbatch carries slurmctld's own refusal, so that no job can exist."""
    words = ("Socket timed out", "Unable to contact", "timed out", "Zero Bytes", "Connection")
    failed = "Batch job submission failed" in stderr or "sbatch: error" in stderr
    return failed and not any(word in stderr for word in words)
