"""Pure. Reads the listing of ``squeue``; name and comment of a job tell its run and its attempt.

A listing with any line that cannot be read is refused as a whole: half an answer would make running
jobs look gone. Formats: squeue(1), Slurm 22.05; reasons: job_reason_codes, Slurm 22.05 to 24.05.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from Daddy.cluster.orchestrator.controller_records import JobState, QueueJob, WaitReason

_WIDTHS = {
    "JobID": 16, "State": 20, "Reason": 96, "StartTime": 20, "EndTime": 20, "exit_code": 12,
    "NodeList": 64, "RestartCnt": 8, "Name": 96, "Comment": 128,
}  # fmt: skip
FIELDS = tuple(_WIDTHS)
_BAR = "|"
LISTING = ",".join(f"{name}:{width}{_BAR}" for name, width in _WIDTHS.items())
"""The argument of ``squeue --Format``: every field padded and closed by a bar."""
_ID = re.compile(r"(\d+)(?:[_+].*)?")
"""A job's, an array's task (``7_1``) or a part of a heterogeneous job (``7+1``)."""
_NOTHING = ("", "None", "N/A", "(null)")
_COMMENT = re.compile(r"daddy/(?P<run>[^/]+)/(?P<number>\d+)/(?P<token>[0-9a-f]{12})")
_NAME = re.compile(r"daddy-(?P<run>.+)-(?P<token>[0-9a-f]{12})")
_OURS = re.compile(r"daddy[-/]")
"""In every line that tells of a job of any run."""

_PENDING = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
_ENDED = frozenset({
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "REVOKED", "TIMEOUT",
})  # fmt: skip
_REASONS = (
    (r"JobHeldAdmin", WaitReason.ADMIN),
    (
        r"ReqNodeNotAvail.*maintenance|Reservation\b|.*Reserved for maintenance",
        WaitReason.RESERVATION,
    ),
    (r"ReservationDeleted", WaitReason.NEVER),
    # Limits of one job: no waiting makes it smaller.
    (r"(QOS|Assoc)\w*(PerJob|PerNode)\w*", WaitReason.NEVER),
    (r"(QOS|Assoc)Min\w+", WaitReason.NEVER),
    (r"AssocMaxWall\w*|AssociationTimeLimit|QOSTimeLimit", WaitReason.NEVER),
    (r"Partition(TimeLimit|NodeLimit|Config)", WaitReason.NEVER),
    (r"BadConstraints|DependencyNeverSatisfied|DeadLine|Deadline", WaitReason.NEVER),
    (r"(Invalid)(Account|QOS)|(Account|QOS)NotAllowed", WaitReason.NEVER),
    (r"JobHoldMaxRequeue|.*requeued (in )?held.*|JobLaunchFailure", WaitReason.NEVER),
    # Used up for good, until somebody grants more; running minutes come back by themselves.
    (r"(Assoc|QOS)Grp\w*RunMinutes\w*", WaitReason.TURN),
    (r"(Assoc|QOS)Grp\w*Minutes\w*|(Assoc|QOS)Grp\w*Wall\w*|QOSUsageThreshold", WaitReason.BUDGET),
    # Limits of a group that the person shares: others use them up, so they are no cap of ours.
    (r"QOS(Max)?\w*PerAccount\w*|QOSGrp\w+", WaitReason.TURN),
    (r"(QOS|Assoc)Max(Jobs|\w+PerUser)\w*|AssocMaxJobs\w*", WaitReason.CAP),
    # Sites write a cap into a user's association; should it be the class's, the first successor
    # that starts too early corrects us.
    (r"AssocGrp(Jobs|Cpu|CPU|GRES|Node|Mem|Billing)\w*", WaitReason.CAP),
    (r"(Association|QOS)(Job|Resource)Limit", WaitReason.CAP),
)
_WAITS = tuple((re.compile(words), waits) for words, waits in _REASONS)
"""The first line that fits wins; a reason in no line means patience."""

Row = Mapping[str, str]


class GarbledListingError(ValueError):
    """A line of the listing is not in the format that was asked for."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The jobs of one run, and the person's others."""

    jobs: tuple[QueueJob, ...]
    others: tuple[QueueJob, ...]
    names: Mapping[str, str]
    """The job names of our jobs, by token: a site may have changed what was asked for."""


def job_comment(run_id: str, number: int, token: str) -> str:
    """The value of ``--comment``: run and attempt, across restarts and lost files."""
    return f"daddy/{run_id}/{number}/{token}"


def job_name(run_id: str, token: str) -> str:
    """The value of ``--job-name``; it carries the token a second time."""
    return f"daddy-{run_id}-{token}"


def read_job_tags(name: str, comment: str) -> tuple[str, str]:
    """(run, token) that a job's comment tells, or its name; empty for a stranger's job."""
    match = _COMMENT.fullmatch(comment) or _NAME.fullmatch(name)
    return (match["run"], match["token"]) if match else ("", "")


def parse_state(word: str) -> JobState:
    """Slurm's state (``CANCELLED by 0`` and ``COMPLETED+`` included) as ours.

    A word in no table counts as running (``SUSPENDED`` on purpose): that changes nothing.
    """
    first = word.split(maxsplit=1)[0].rstrip("+") if word.split() else ""
    if first in _PENDING:
        return JobState.PENDING
    return JobState.ENDED if first in _ENDED else JobState.RUNNING


def classify_reason(reason: str) -> WaitReason:
    """The kind of a pending job's reason as squeue prints it (details may follow)."""
    for words, waits in _WAITS:
        match = words.match(reason)
        if match and not reason[match.end() : match.end() + 1].isalnum():
            return waits
    return WaitReason.TURN


def read_exit_code(text: str) -> int | None:
    """The exit status of the batch program, 128 + n after signal n; None for anything else.

    squeue 22.05 prints the wait status (2816 is exit code 11); sacct and newer ones ``11:0``.
    """
    code, _, number = text.partition(":")
    if not code.isdigit() or (number and not number.isdigit()):
        return None
    returned, killed = (int(code), int(number)) if number else divmod(int(code), 256)
    return 128 + killed % 128 if killed % 128 else returned


def parse_listing(text: str, run_id: str) -> Listing:
    """A listing made with :data:`LISTING`.

    Raises GarbledListingError at the first line that is not whole.
    """
    jobs: list[QueueJob] = []
    others: list[QueueJob] = []
    names: dict[str, str] = {}
    for line in text.split("\n"):
        if not line or line.isspace():
            continue
        row = _split(line)
        job = _to_job(row, run_id)
        (jobs if job.token else others).append(job)
        names[job.token] = row["Name"]
    return Listing(tuple(jobs), tuple(others), names)


def _split(line: str) -> dict[str, str]:
    """A stranger's name or comment may hold bars: they come last, and ours hold none."""
    parts = line.split(_BAR)
    more = len(parts) - len(FIELDS) - 1
    if more < 0 or parts[-1].strip() or (more and _OURS.search(line)):
        raise GarbledListingError(f"a line of squeue has {len(parts) - 1} fields: {line[:80]!r}")
    row = {name: part.strip() for name, part in zip(FIELDS, parts, strict=False)}
    if not _ID.fullmatch(row["JobID"]) or not row["State"]:
        raise GarbledListingError(f"a line of squeue names no job: {line[:80]!r}")
    return row


def _to_job(row: Row, run_id: str) -> QueueJob:
    """A task of an array is no job of ours, whatever its name."""
    run, token = read_job_tags(row["Name"], row["Comment"]) if row["JobID"].isdigit() else ("", "")
    state = parse_state(row["State"])
    pending = state is JobState.PENDING
    why = "" if row["Reason"] in _NOTHING else row["Reason"]
    starts = _stamp(row["StartTime"])
    return QueueJob(
        int(_ID.sub(r"\1", row["JobID"])),
        token if run == run_id else "",
        state,
        row["State"],
        why,
        row["NodeList"],
        started_ts=None if pending else starts,
        ends_ts=None if pending else _stamp(row["EndTime"]),
        exit_code=read_exit_code(row["exit_code"]) if state is JobState.ENDED else None,
        restarts=int(row["RestartCnt"]) if row["RestartCnt"].isdigit() else 0,
        expected_ts=starts if pending else None,
        run_id=run if run != run_id else "",
        waits=classify_reason(why) if pending and why else WaitReason.TURN,
    )


def _stamp(text: str) -> float | None:
    return float(text) if text.isdigit() else None
