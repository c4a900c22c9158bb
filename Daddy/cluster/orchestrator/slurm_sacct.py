"""Pure. Parses ``sacct`` output: the ends of jobs that have left squeue's listing."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from Daddy.cluster.orchestrator.controller_types import JobState, QueueJob
from Daddy.cluster.orchestrator.slurm_squeue import job_name, parse_state, read_exit_code

_FIELDS = (
    "JobIDRaw", "JobName%128", "State%64", "ExitCode", "Start", "End", "NodeList%64", "ReqMem",
    "MaxRSS",
)  # fmt: skip
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)([cn]?)")
_UNITS = {unit: 1024.0**power for power, unit in enumerate(("", *"KMGTP"))}
_CANCELLED_BY = re.compile(r"CANCELLED by (\d+)")


def sacct_argv(job_ids: Sequence[int]) -> list[str]:
    """Return the command; ``--duplicates``, because Slurm reuses ids; memory is in steps' lines."""
    return [
        "sacct", "--noheader", "--parsable2", "--duplicates", "--allusers",
        f"--jobs={','.join(map(str, job_ids))}", f"--format={','.join(_FIELDS)}",
    ]  # fmt: skip


def parse_ends(
    text: str, run_id: str, tokens: Mapping[int, str], own_id: int
) -> tuple[QueueJob, ...]:
    """Return those of the jobs (id → token) that ended; of two lines of a job the later counts.

    Jobs that are listed as running are left out, because the database may lag behind their ends.
    """
    jobs: dict[int, QueueJob] = {}
    current = None
    for line in text.splitlines():
        cells = line.split("|")
        if len(cells) != len(_FIELDS):
            continue
        if not cells[0].isdigit():
            if current is not None and cells[0].startswith(f"{current}."):
                jobs[current] = _with_step(jobs[current], cells[-1])
            continue
        token = tokens.get(int(cells[0]))
        ours = token is not None and cells[1] == job_name(run_id, token)
        current = int(cells[0]) if ours else None
        if current is not None and token is not None:
            jobs[current] = _to_job(token, cells, own_id)
    return tuple(job for job in jobs.values() if job.state is JobState.ENDED)


def _with_step(job: QueueJob, used: str) -> QueueJob:
    """Return the job with the memory of one of its steps, if no other step used more."""
    size = parse_size(used)
    return job if size is None else replace(job, used_bytes=max(size, job.used_bytes or 0))


def parse_size(text: str) -> int | None:
    """Return the bytes of a size such as ``613000K`` or ``4Gn``; None for any other text."""
    match = _SIZE.fullmatch(text)
    return int(float(match[1]) * _UNITS[match[2]]) if match else None


def _to_job(token: str, cells: Sequence[str], own_id: int) -> QueueJob:
    """Convert a line; set ``canceller`` only for another user."""
    job_id, _, word, code, start, end, node, asked, _ = cells
    state, by = parse_state(word), _CANCELLED_BY.match(word)
    return QueueJob(
        int(job_id),
        token,
        state,
        word.partition(" ")[0],
        node="" if node == "None assigned" else node,
        started_ts=float(start) if start.isdigit() else None,
        ends_ts=float(end) if end.isdigit() else None,
        exit_code=read_exit_code(code) if state is JobState.ENDED else None,
        canceller=int(by[1]) if by and int(by[1]) != own_id else None,
        asked_memory=f"{asked[:-1]} per CPU" if asked.endswith("c") else asked.rstrip("n"),
    )
