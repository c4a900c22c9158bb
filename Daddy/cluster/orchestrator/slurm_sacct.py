"""Pure. Parses ``sacct`` output: the ends of jobs that have left squeue's listing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from Daddy.cluster.orchestrator.controller_types import JobState, QueueJob
from Daddy.cluster.orchestrator.slurm_squeue import job_name, parse_state, read_exit_code

_FIELDS = ("JobIDRaw", "JobName%128", "State%64", "ExitCode", "Start", "End", "NodeList%64")
_CANCELLED_BY = re.compile(r"CANCELLED by (\d+)")


def sacct_argv(job_ids: Sequence[int]) -> list[str]:
    """Return the command; ``--duplicates``, because Slurm reuses ids."""
    return [
        "sacct", "--noheader", "--parsable2", "--allocations", "--duplicates", "--allusers",
        f"--jobs={','.join(map(str, job_ids))}", f"--format={','.join(_FIELDS)}",
    ]  # fmt: skip


def parse_ends(
    text: str, run_id: str, tokens: Mapping[int, str], own_id: int
) -> tuple[QueueJob, ...]:
    """Return those of the jobs (id → token) that ended; of two lines of a job the later counts.

    Jobs that are listed as running are left out, because the database may lag behind their ends.
    """
    jobs: dict[int, QueueJob] = {}
    for line in text.splitlines():
        cells = line.split("|")
        job_id = int(cells[0]) if cells[0].isdigit() else None
        token = tokens.get(job_id) if job_id is not None else None
        if len(cells) == len(_FIELDS) and token and cells[1] == job_name(run_id, token):
            jobs[int(cells[0])] = _to_job(token, cells, own_id)
    return tuple(job for job in jobs.values() if job.state is JobState.ENDED)


def _to_job(token: str, cells: Sequence[str], own_id: int) -> QueueJob:
    """Convert a line; set ``canceller`` only for another user."""
    job_id, _, word, code, start, end, node = cells
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
    )
