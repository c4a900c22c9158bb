"""Pure. Parses the listing of ``squeue``; a job's name and comment contain its run and attempt.

A listing with a damaged line is refused as a whole, because running jobs would be missing from it.
Formats: squeue(1), Slurm 22.05; reasons: job_reason_codes, Slurm 22.05 to 24.05.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from Daddy.cluster.orchestrator.controller_types import JobState, QueueJob, WaitReason

_WIDTHS = {
    "JobID": 16, "State": 20, "Reason": 96, "StartTime": 20, "EndTime": 20, "exit_code": 12,
    "NodeList": 64, "RestartCnt": 8, "Name": 96, "Comment": 128,
}  # fmt: skip
FIELDS = tuple(_WIDTHS)
_BAR = "|"
LISTING = ",".join(f"{name}:{width}{_BAR}" for name, width in _WIDTHS.items())
"""The argument of ``squeue --Format``: every field is padded and ends with a bar."""
_ID = re.compile(r"(\d+)(?:[_+].*)?")
"""The id of a job, an array task (``7_1``) or a part of a heterogeneous job (``7+1``)."""
_NOTHING = ("", "None", "N/A", "(null)")
_COMMENT = re.compile(r"daddy/(?P<run>[^/]+)/(?P<number>\d+)/(?P<token>[0-9a-f]{12})")
_NAME = re.compile(r"daddy-(?P<run>.+)-(?P<token>[0-9a-f]{12})")
_OURS = re.compile(r"daddy[-/]")
"""Matches the line of a job of any run of Daddy."""

_PENDING = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
_ENDED = frozenset({
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "REVOKED", "TIMEOUT",
})  # fmt: skip
_REASONS = (
    (r"JobHeldAdmin", WaitReason.ADMIN),
    (r"ReqNodeNotAvail.*maintenance", WaitReason.RESERVATION),
    (r"Reservation\b|.*Reserved for maintenance", WaitReason.RESERVATION),
    (r"ReservationDeleted", WaitReason.NEVER),
    (r"Partition(Down|Inactive)|NodeDown", WaitReason.CLOSED),
    # Limits of a single job: waiting does not help.
    (r"(QOS|Assoc)\w*(PerJob|PerNode)\w*", WaitReason.NEVER),
    (r"(QOS|Assoc)Min\w+", WaitReason.NEVER),
    (r"AssocMaxWall\w*|AssociationTimeLimit|QOSTimeLimit", WaitReason.NEVER),
    (r"Partition(TimeLimit|NodeLimit|Config)", WaitReason.NEVER),
    (r"BadConstraints|DependencyNeverSatisfied|DeadLine|Deadline", WaitReason.NEVER),
    (r"(Invalid)(Account|QOS)|(Account|QOS)NotAllowed", WaitReason.NEVER),
    (r"JobHoldMaxRequeue|.*requeued (in )?held.*|JobLaunchFailure", WaitReason.NEVER),
    # An allocation is used up until somebody grants more; RunMinutes become free by themselves.
    (r"(Assoc|QOS)Grp\w*RunMinutes\w*", WaitReason.TURN),
    (r"(Assoc|QOS)Grp\w*Minutes\w*|(Assoc|QOS)Grp\w*Wall\w*|QOSUsageThreshold", WaitReason.BUDGET),
    # Limits shared with other users: they say nothing about the person's own number of jobs.
    (r"QOS(Max)?\w*PerAccount\w*|QOSGrp\w+", WaitReason.TURN),
    (r"(QOS|Assoc)Max(Jobs|\w+PerUser)\w*|AssocMaxJobs\w*", WaitReason.CAP),
    # AssocGrp limits usually hold for one user. Where a group shares one, the cap that is learnt
    # from it is raised as soon as a successor starts beyond it.
    (r"AssocGrp(Jobs|Cpu|CPU|GRES|Node|Mem|Billing)\w*", WaitReason.CAP),
    (r"(Association|QOS)(Job|Resource)Limit", WaitReason.CAP),
)
_WAITS = tuple((re.compile(words), waits) for words, waits in _REASONS)
"""The first pattern that matches counts; any other reason counts as ``TURN``."""

Row = Mapping[str, str]


class GarbledListingError(ValueError):
    """A line of the listing does not have the requested format."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Holds the jobs of one run, and the person's other jobs."""

    jobs: tuple[QueueJob, ...]
    others: tuple[QueueJob, ...]
    names: Mapping[str, str]
    """Token → the job's name in the listing: some sites change the submitted name."""


def job_comment(run_id: str, number: int, token: str) -> str:
    """Return the value of ``--comment``, from which run and attempt can be read again."""
    return f"daddy/{run_id}/{number}/{token}"


def job_name(run_id: str, token: str) -> str:
    """Return the value of ``--job-name``, which has the token, too."""
    return f"daddy-{run_id}-{token}"


def read_job_tags(name: str, comment: str) -> tuple[str, str]:
    """Return (run, token) from a job's comment or name; empty for a job that is not Daddy's."""
    match = _COMMENT.fullmatch(comment) or _NAME.fullmatch(name)
    return (match["run"], match["token"]) if match else ("", "")


def parse_state(word: str) -> JobState:
    """Convert Slurm's state, also ``CANCELLED by 0`` and ``COMPLETED+``.

    An unknown state, and ``SUSPENDED``, counts as running, so the controller leaves the job alone.
    """
    first = word.split(maxsplit=1)[0].rstrip("+") if word.split() else ""
    if first in _PENDING:
        return JobState.PENDING
    return JobState.ENDED if first in _ENDED else JobState.RUNNING


def classify_reason(reason: str) -> WaitReason:
    """Return the kind of a pending job's reason as squeue prints it (details may follow)."""
    for words, waits in _WAITS:
        match = words.match(reason)
        if match and not reason[match.end() : match.end() + 1].isalnum():
            return waits
    return WaitReason.TURN


def read_exit_code(text: str) -> int | None:
    """Return the batch program's exit code, 128 + n after signal n; None for any other text.

    squeue 22.05 prints the wait status (2816 is exit code 11); newer ones and sacct print ``11:0``.
    """
    code, _, number = text.partition(":")
    if not code.isdigit() or (number and not number.isdigit()):
        return None
    status, signal = (int(code), int(number)) if number else divmod(int(code), 256)
    return 128 + signal % 128 if signal % 128 else status


def parse_listing(text: str, run_id: str) -> Listing:
    """Parse a listing made with :data:`LISTING`; GarbledListingError at the first damaged line."""
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
    """Split a line into fields; allow extra bars in the name and comment of a foreign job."""
    parts = line.split(_BAR)
    extra = len(parts) - len(FIELDS) - 1
    if extra < 0 or parts[-1].strip() or (extra and _OURS.search(line)):
        raise GarbledListingError(f"a line of squeue has {len(parts) - 1} fields: {line[:80]!r}")
    row = {name: part.strip() for name, part in zip(FIELDS, parts, strict=False)}
    if not _ID.fullmatch(row["JobID"]) or not row["State"]:
        raise GarbledListingError(f"a line of squeue names no job: {line[:80]!r}")
    return row


def _to_job(row: Row, run_id: str) -> QueueJob:
    """Convert a row; an array's task counts as a foreign job, whatever its name."""
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
        wait_reason=classify_reason(why) if pending and why else WaitReason.TURN,
    )


def _stamp(text: str) -> float | None:
    return float(text) if text.isdigit() else None
