"""Asks ``sacct`` for the ends of jobs that have left the listing."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence

from Daddy.cluster.orchestrator.records import JobState, QueueJob
from Daddy.cluster.orchestrator.scheduler import JobRef
from Daddy.cluster.orchestrator.slurm_commands import SlurmCommands
from Daddy.cluster.orchestrator.slurm_squeue import job_name, read_exit_code, state_of
from Daddy.core.clock import Clock
from Daddy.core.process import ProcessTimeoutError, ProgramMissingError

_FIELDS = ("JobIDRaw", "JobName%128", "State%64", "ExitCode", "Start", "End", "NodeList%64")
_CANCELLED_BY = re.compile(r"CANCELLED by (\d+)")
_TIMEOUT_S = 10.0
_PAUSE_S = 300.0
"""After a failure: a database that hangs must not cost every pass its time."""
_LAG_S = 1.5
"""The database hears of an end a moment after the listing shows it."""


class SlurmAccounting:
    """The accounting of one run's jobs; a site without accounting is asked once."""

    def __init__(self, commands: SlurmCommands, run_id: str, own_id: int, clock: Clock) -> None:
        self._commands = commands
        self._run_id = run_id
        self._own_id = own_id
        self._clock = clock
        self._there = True
        self._pause_until = float("-inf")

    def autopsy(self, jobs: Sequence[JobRef]) -> tuple[QueueJob, ...]:
        """The ends of these jobs; ``canceller`` is set where another user cancelled."""
        found = self._ask(jobs)
        if found is not None and len(found) < len(jobs):
            self._clock.wait(threading.Event(), _LAG_S)
            found = self._ask(jobs)
        return found or ()

    def _ask(self, jobs: Sequence[JobRef]) -> tuple[QueueJob, ...] | None:
        """None where there is no answer to be had."""
        if not jobs or not self._there or self._clock.monotonic() < self._pause_until:
            return None
        try:
            done = self._commands.run(sacct_argv([job.job_id for job in jobs]), _TIMEOUT_S)
        except ProcessTimeoutError:
            self._pause_until = self._clock.monotonic() + _PAUSE_S
            return None
        except ProgramMissingError:
            self._there = False
            return None
        if done.returncode != 0:
            self._there = "storage is disabled" not in done.stderr
            self._pause_until = self._clock.monotonic() + _PAUSE_S
            return None
        tokens = {job.job_id: job.token for job in jobs}
        return parse_ends(done.stdout, self._run_id, tokens, self._own_id)


def sacct_argv(job_ids: Sequence[int]) -> list[str]:
    """The command; ``--duplicates``, because an id may have been given twice."""
    return [
        "sacct", "--noheader", "--parsable2", "--allocations", "--duplicates", "--allusers",
        f"--jobs={','.join(map(str, job_ids))}", f"--format={','.join(_FIELDS)}",
    ]  # fmt: skip


def parse_ends(
    text: str, run_id: str, tokens: Mapping[int, str], own_id: int
) -> tuple[QueueJob, ...]:
    """Those of the jobs asked for (id → token) that ended; of two lines about one the later counts.

    A job that it calls running may be long dead: the database hears of an end when it can.
    """
    found: dict[int, QueueJob] = {}
    for line in text.splitlines():
        cells = line.split("|")
        job_id = int(cells[0]) if cells[0].isdigit() else None
        token = tokens.get(job_id) if job_id is not None else None
        if len(cells) == len(_FIELDS) and token and cells[1] == job_name(run_id, token):
            found[int(cells[0])] = _to_job(token, cells, own_id)
    return tuple(job for job in found.values() if job.state is JobState.ENDED)


def _to_job(token: str, cells: Sequence[str], own_id: int) -> QueueJob:
    """``canceller`` is set only for another user."""
    job_id, _, word, code, start, end, node = cells
    state, by = state_of(word), _CANCELLED_BY.match(word)
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
