"""Pure: what sacct remembers of jobs that are gone from the listing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from Daddy.cluster.orchestrator.records import JobState, QueueJob
from Daddy.cluster.orchestrator.slurm_marks import job_name
from Daddy.cluster.orchestrator.slurm_states import canceller_of, read_exit_code, state_of

FIELDS = ("JobIDRaw", "JobName%128", "State%64", "ExitCode", "Start", "End", "NodeList%64")


def question(tokens: Mapping[int, str]) -> list[str]:
    """The arguments of sacct; ``--duplicates``, because an id may have been given twice."""
    ids = ",".join(map(str, tokens))
    return [
        "sacct", "--noheader", "--parsable2", "--allocations", "--duplicates", "--allusers",
        f"--jobs={ids}", f"--format={','.join(FIELDS)}",
    ]  # fmt: skip


def parse_answer(
    text: str, run_id: str, tokens: Mapping[int, str], own_id: int
) -> tuple[QueueJob, ...]:
    """Those of the jobs asked for (id → token) that ended; of two lines about one the later counts.

    A job that it calls running may be long dead: the database hears of an end when it can.
    """
    asked = {
        (str(job_id), job_name(run_id, token)): (job_id, token) for job_id, token in tokens.items()
    }
    found: dict[int, QueueJob] = {}
    for line in text.splitlines():
        cells = line.split("|")
        job = asked.get((cells[0], cells[1])) if len(cells) == len(FIELDS) else None
        if job is not None:
            found[job[0]] = _to_job(*job, cells, own_id)
    return tuple(job for job in found.values() if job.state is JobState.ENDED)


def _to_job(job_id: int, token: str, cells: Sequence[str], own_id: int) -> QueueJob:
    """``canceller`` is set only for somebody else."""
    _, _, word, code, start, end, node = cells
    state, by = state_of(word), canceller_of(word)
    return QueueJob(
        job_id,
        token,
        state,
        word.partition(" ")[0],
        node="" if node == "None assigned" else node,
        started_ts=float(start) if start.isdigit() else None,
        ends_ts=float(end) if end.isdigit() else None,
        exit_code=read_exit_code(code) if state is JobState.ENDED else None,
        canceller=by if by != own_id else None,
    )
