"""Door to Slurm's commands: sbatch, squeue, scancel; each with a timeout and a built environment.

Nothing of the person's ``SQUEUE_*``, ``SBATCH_*`` or ``SLURM_*`` variables gets through but
``SLURM_CONF``: ``SQUEUE_STATES=R`` alone would hide every waiting job at exit code 0. A listing
that failed or cannot be read whole is ``Unknown``. A submission without an answer may have made a
job.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from Daddy.cluster.orchestrator.records import Observation, Snapshot, Unknown
from Daddy.cluster.orchestrator.scheduler import (
    Answer,
    JobRef,
    JobSpec,
    Refused,
    Submitted,
    Unanswered,
)
from Daddy.cluster.orchestrator.slurm_states import (
    LISTING,
    GarbledListingError,
    answered,
    job_name,
    parse_job_id,
    parse_listing,
    refused_for_good,
    submit_limit_reached,
)
from Daddy.cluster.orchestrator.slurm_templates import render
from Daddy.core.clock import Clock
from Daddy.core.errors import SchedulerError
from Daddy.core.files import write_atomic
from Daddy.core.process import Completed, ProcessTimeoutError, ProgramMissingError, run

_SUBMIT_TIMEOUT_S = 40.0
"""Above the 9 to 10 s that sbatch itself waits for a silent slurmctld."""
_LIST_TIMEOUT_S = 30.0
_FOREIGN = ("SLURM_", "SBATCH_", "SQUEUE_", "SCANCEL_", "SALLOC_", "SRUN_")


def slurm_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What Slurm's commands are started with: the caller's, cleaned of what bends their answers."""
    kept = {key: value for key, value in environ.items() if not key.startswith(_FOREIGN)}
    if "SLURM_CONF" in environ:
        kept["SLURM_CONF"] = environ["SLURM_CONF"]
    return {**kept, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}


class SlurmScheduler:
    """The site's Slurm, for the jobs of one run."""

    name = "slurm"

    def __init__(self, run_id: str, clock: Clock, environ: Mapping[str, str] | None = None) -> None:
        self._run_id = run_id
        self._clock = clock
        self.list_timeout_s = _LIST_TIMEOUT_S
        self._env = slurm_environment(os.environ if environ is None else environ)

    def snapshot(self) -> Observation:
        """One listing of the person's jobs in every state and partition."""
        begun = self._clock.now()
        command = ["squeue", "--me", "--noheader", "--array", "--all", "--states=all"]
        try:
            done = run([*command, f"--Format={LISTING}"], self.list_timeout_s, env=self._env)
        except (ProcessTimeoutError, ProgramMissingError) as error:
            return Unknown(begun, error.message)
        if done.returncode != 0:
            return Unknown(begun, _first_line(done))
        try:
            jobs, strangers = parse_listing(done.stdout, self._run_id)
        except GarbledListingError as error:
            return Unknown(begun, str(error))
        return Snapshot(begun, jobs, strangers)

    def submit(self, spec: JobSpec) -> Answer:
        """Write the script and hand it to ``sbatch`` once."""
        write_atomic(spec.script, render(spec).encode())
        try:
            done = run(["sbatch", "--parsable", str(spec.script)], _SUBMIT_TIMEOUT_S, env=self._env)
        except ProcessTimeoutError as error:
            return Unanswered(error.message)
        except ProgramMissingError as error:
            return Refused(error.message, for_good=True)
        return _read_answer(done)

    def check(self, spec: JobSpec) -> None:
        """Let Slurm judge the script without queueing it; SchedulerError with its words."""
        write_atomic(spec.script, render(spec).encode())
        argv = ["sbatch", "--test-only", str(spec.script)]
        try:
            done = run(argv, _SUBMIT_TIMEOUT_S, env=self._env)
        except (ProcessTimeoutError, ProgramMissingError) as error:
            raise SchedulerError(error.message, "is Slurm up? try: sinfo") from error
        if done.returncode != 0:
            raise SchedulerError(
                f"Slurm would not take the job: {_first_line(done)}",
                "correct the slurm section of the config (sinfo shows the partitions) or pass "
                "--partition; if Slurm is down, try again later",
            )

    def signal(self, jobs: Sequence[JobRef]) -> None:
        for job in jobs:
            self._scancel(job, "--signal=USR1", "--batch")

    def cancel(self, jobs: Sequence[JobRef]) -> None:
        for job in jobs:
            self._scancel(job)

    def _scancel(self, job: JobRef, *options: str) -> None:
        """The name holds the token: with both given, scancel touches a job only if both fit."""
        name = job_name(self._run_id, job.token)
        argv = ["scancel", *options, f"--name={name}", str(job.job_id)]
        done = run(argv, _SUBMIT_TIMEOUT_S, env=self._env)
        if done.returncode != 0:
            raise SchedulerError(f"scancel failed: {_first_line(done)}", "it is tried again")


def _read_answer(done: Completed) -> Answer:
    job_id = parse_job_id(done.stdout)
    if done.returncode == 0 and job_id is not None:
        return Submitted(job_id)
    why = _first_line(done)
    if done.returncode != 0 and answered(done.stderr):
        return Refused(why, refused_for_good(done.stderr), submit_limit_reached(done.stderr))
    return Unanswered(why)


def _first_line(done: Completed) -> str:
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [f"exit code {done.returncode} without a word"])[0][:300]
