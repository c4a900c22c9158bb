"""Pure: what Slurm's states, exit codes and the answers of sbatch mean. No guessing.

Words of states that are not in the table count as running (``SUSPENDED`` is one on purpose), the
choice that changes nothing. States: squeue(1), Slurm 22.05.
"""

from __future__ import annotations

import re

from Daddy.cluster.orchestrator.records import JobState

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
_FATAL_REFUSALS = (
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
_CANCELLED_BY = re.compile(r"CANCELLED by (\d+)")
_RATE_LIMIT = re.compile(r"RPC rate limit", re.IGNORECASE)


def state_of(word: str) -> JobState:
    """Slurm's state (``CANCELLED by 0`` and ``COMPLETED+`` included) as ours."""
    first = word.split(maxsplit=1)[0].rstrip("+") if word.split() else ""
    if first in _PENDING:
        return JobState.PENDING
    return JobState.ENDED if first in _ENDED else JobState.RUNNING


def canceller_of(word: str) -> int | None:
    """The user id in sacct's ``CANCELLED by UID``."""
    match = _CANCELLED_BY.match(word)
    return int(match[1]) if match else None


def read_exit_code(text: str) -> int | None:
    """What the batch program returned, 128 + n after signal n.

    squeue 22.05 prints the wait status (2816 is exit code 11); sacct and newer ones ``11:0``.
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
    return any(words in stderr for words in _FATAL_REFUSALS)


def submit_limit_reached(stderr: str) -> bool:
    """Whether the site counts pending jobs and the count is full."""
    return "MaxSubmitJob" in stderr


def rate_limited(stderr: str) -> bool:
    """Whether slurmctld asks to be asked less often."""
    return _RATE_LIMIT.search(stderr) is not None


def answered(stderr: str) -> bool:
    """Whether a failed sbatch carries slurmctld's own refusal, so that no job can exist."""
    words = ("Socket timed out", "Unable to contact", "timed out", "Zero Bytes", "Connection")
    failed = "Batch job submission failed" in stderr or "sbatch: error" in stderr
    return failed and not any(word in stderr for word in words)
