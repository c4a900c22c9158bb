"""The site's Slurm as a queue: sbatch, squeue, scancel, scontrol, sacct, sacctmgr, translated.

A listing that failed or cannot be read whole is ``Unknown``. A submission without an answer may
have made a job, but its sbatch has ended when we say so: a listing begun afterwards counts. Jobs
are touched by id *and* token only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from Daddy.cluster.orchestrator.actions import Amend
from Daddy.cluster.orchestrator.records import (
    JobState,
    Observation,
    QueueJob,
    Site,
    Snapshot,
    Unknown,
    Waits,
)
from Daddy.cluster.orchestrator.scheduler import (
    Answer,
    JobRef,
    JobSpec,
    Refused,
    Submitted,
    Unanswered,
)
from Daddy.cluster.orchestrator.slurm_accounting import SlurmAccounting
from Daddy.cluster.orchestrator.slurm_commands import SlurmCommands
from Daddy.cluster.orchestrator.slurm_listing import (
    LISTING,
    Asked,
    GarbledListingError,
    Listing,
    differences,
    parse_listing,
)
from Daddy.cluster.orchestrator.slurm_marks import job_comment, job_name
from Daddy.cluster.orchestrator.slurm_show import amendments, is_job, maintenance_begins
from Daddy.cluster.orchestrator.slurm_site import Request, read_site
from Daddy.cluster.orchestrator.slurm_states import (
    answered,
    parse_job_id,
    refused_for_good,
    submit_limit_reached,
)
from Daddy.cluster.orchestrator.slurm_templates import render
from Daddy.core.clock import Clock
from Daddy.core.errors import SchedulerError
from Daddy.core.files import write_atomic
from Daddy.core.machine import user_name
from Daddy.core.process import Completed, ProcessTimeoutError, ProgramMissingError

_SUBMIT_TIMEOUT_S = 40.0
"""Above the 9 to 10 s that sbatch itself waits for a silent slurmctld."""
_LIST_TIMEOUT_S = 30.0
_SITE_S = 15.0
"""For all questions about the site: a database that hangs does not keep slots empty."""
_GONE = ("Invalid job id", "already completing or completed", "already finished")
_RESERVATION_S = 600.0
"""How long an answer about reservations holds."""


class SlurmScheduler:
    """The site's Slurm, for the jobs of one run."""

    name = "slurm"

    def __init__(
        self,
        run_id: str,
        clock: Clock,
        environ: Mapping[str, str] | None = None,
        *,
        calls: Path | None = None,
        request: Request | None = None,
        user_id: int | None = None,
        list_timeout_s: float | None = None,
    ) -> None:
        """``calls``: folder of the counts; ``request``: what jobs ask for, to read their limits."""
        self._run_id = run_id
        self._clock = clock
        self._request = dict(request or {})
        self._list_timeout_s = list_timeout_s or _LIST_TIMEOUT_S
        self.commands = SlurmCommands(clock, os.environ if environ is None else environ, calls)
        self._new: dict[int, Asked] = {}
        self._renamed: dict[str, str] = {}
        own = os.getuid() if user_id is None else user_id
        self._accounting = SlurmAccounting(self.commands, run_id, own, clock)
        self._reserved: tuple[float, float | None] = (float("-inf"), None)

    @property
    def calls(self) -> int:
        return self.commands.calls

    def snapshot(self) -> Observation:
        """One listing of the person's jobs in every state and partition."""
        begun = self._clock.now()
        command = ["squeue", "--me", "--noheader", "--array", "--all", "--states=all"]
        try:
            done = self.commands.run([*command, f"--Format={LISTING}"], self._list_timeout_s)
        except (ProcessTimeoutError, ProgramMissingError) as error:
            return Unknown(begun, error.message, self.commands.slowed)
        if done.returncode != 0:
            return Unknown(begun, _first_line(done), self.commands.slowed)
        try:
            listing = parse_listing(done.stdout, self._run_id, self._new)
        except GarbledListingError as error:
            return Unknown(begun, str(error), self.commands.slowed)
        self._renamed.update(listing.renamed)
        return Snapshot(
            begun,
            listing.jobs,
            listing.others,
            maintenance_ts=self._maintenance(listing.jobs),
            warnings=self._compare(listing),
            slow_down=self.commands.slowed,
        )

    def _compare(self, listing: Listing) -> tuple[str, ...]:
        """What became of our submissions otherwise than asked, once for each job."""
        asked = {job_id: self._new.pop(job_id) for job_id in listing.rows}
        return tuple(
            f"job {job_id}: {said}"
            for job_id, one in asked.items()
            for said in differences(one, listing.rows[job_id])
        )

    def _maintenance(self, jobs: Sequence[QueueJob]) -> float | None:
        """When the reservation begins that a job waits for; asked only if one does."""
        if not any(job.waits is Waits.RESERVATION and _pending(job) for job in jobs):
            return None
        asked, begins = self._reserved
        if self._clock.monotonic() - asked < _RESERVATION_S:
            return begins
        text = self.commands.ask(("scontrol", "--oneliner", "show", "reservation"))
        partition = str(self._request.get("partition", ""))
        begins = maintenance_begins(text or "", partition, self._clock.now())
        self._reserved = (self._clock.monotonic(), begins)
        return begins

    def submit(self, spec: JobSpec) -> Answer:
        """Write the script and hand it to ``sbatch`` once."""
        write_atomic(spec.script, render(spec).encode())
        try:
            done = self.commands.run(["sbatch", "--parsable", str(spec.script)], _SUBMIT_TIMEOUT_S)
        except ProcessTimeoutError as error:
            return Unanswered(error.message)
        except ProgramMissingError as error:
            return Refused(error.message, for_good=True)
        answer = _read_answer(done)
        if isinstance(answer, Submitted):
            self._new[answer.job_id] = _asked(spec)
            self.commands.count("squeue")  # the job itself will ask for its end
        return answer

    def check(self, spec: JobSpec) -> None:
        """Let Slurm judge the script without queueing it; SchedulerError with its words."""
        write_atomic(spec.script, render(spec).encode())
        argv = ["sbatch", "--test-only", str(spec.script)]
        try:
            done = self.commands.run(argv, _SUBMIT_TIMEOUT_S)
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
        named = f"--name={self._name_of(job)}"
        self._demand(["scancel", *options, named, str(job.job_id)], gone=_GONE)

    def _name_of(self, job: JobRef) -> str:
        """What the site made of it, where a listing knew the job by its comment."""
        return self._renamed.get(job.token, job_name(self._run_id, job.token))

    def amend(self, job: JobRef, change: Amend) -> None:
        """``scontrol`` looks at ids alone, so the job is looked at first: id and name must fit.

        Nodes and limit leave a waiting job its age. A hold takes it (Slurm 22.05 with accounting).
        """
        shown = self._demand(["scontrol", "--oneliner", "show", "job", str(job.job_id)])
        if not is_job(shown.stdout, job.job_id, self._name_of(job)):
            raise SchedulerError(f"job {job.job_id} is not ours any more", "nothing is to be done")
        for argv in amendments(job.job_id, change):
            self._demand(argv)

    def _demand(self, argv: Sequence[str], gone: tuple[str, ...] = ()) -> Completed:
        """Run a command that must work, but for a job that is ``gone`` already by these words.

        SchedulerError with what Slurm says, also where it says nothing.
        """
        try:
            done = self.commands.run(argv, _SUBMIT_TIMEOUT_S)
        except (ProcessTimeoutError, ProgramMissingError) as error:
            raise SchedulerError(error.message, "it is tried again") from error
        if done.returncode != 0 and not any(words in done.stderr for words in gone):
            raise SchedulerError(f"{argv[0]} failed: {_first_line(done)}", "it is tried again")
        return done

    def autopsy(self, jobs: Sequence[JobRef]) -> tuple[QueueJob, ...]:
        return self._accounting.autopsy(jobs)

    def site(self) -> tuple[Site, str]:
        """Limits of associations and QOS, as far as they are enforced and can be read soon."""
        until = self._clock.monotonic() + _SITE_S

        def ask(argv: Sequence[str]) -> str | None:
            return self.commands.ask(argv, until - self._clock.monotonic())

        return read_site(ask, user_name(), self._request)


def _asked(spec: JobSpec) -> Asked:
    name = job_name(spec.run_id, spec.token)
    comment = job_comment(spec.run_id, spec.number, spec.token)
    return Asked(name, comment, spec.time_limit_s, spec.request)


def _pending(job: QueueJob) -> bool:
    return job.state is JobState.PENDING


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
