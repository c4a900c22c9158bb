"""Adapter for the site's Slurm: sbatch, squeue, scancel, scontrol, sacct and sacctmgr as a queue.

A listing that failed or cannot be read whole is ``Unknown``. A submission without an answer may
have made a job, but its sbatch has ended when we say so: a listing begun afterwards counts. Jobs
are touched by id *and* token only.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path

from Daddy.cluster.orchestrator.controller_records import (
    JobState,
    QueueJob,
    QueueReading,
    SiteLimits,
    Snapshot,
    UnknownQueue,
    WaitReason,
)
from Daddy.cluster.orchestrator.plan_actions import Amend
from Daddy.cluster.orchestrator.scheduler_interface import (
    Answer,
    JobRef,
    JobSpec,
    Refused,
    Submitted,
    Unanswered,
)
from Daddy.cluster.orchestrator.slurm_commands import SlurmCommands
from Daddy.cluster.orchestrator.slurm_limits import Request, maintenance_begins, read_site
from Daddy.cluster.orchestrator.slurm_sacct import parse_ends, sacct_argv
from Daddy.cluster.orchestrator.slurm_squeue import (
    LISTING,
    GarbledListingError,
    job_name,
    parse_listing,
)
from Daddy.cluster.orchestrator.slurm_templates import render_job_script
from Daddy.core.atomic_files import write_atomic
from Daddy.core.child_process import Completed, ProcessTimeoutError, ProgramMissingError
from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError, SchedulerError
from Daddy.core.machine_info import user_name

_SUBMIT_TIMEOUT_S = 40.0
"""Above the 9 to 10 s that sbatch itself waits for a silent slurmctld."""
_LIST_TIMEOUT_S = 30.0
_SITE_S = 15.0
"""For all questions about the site: a database that hangs does not keep slots empty."""
_RESERVATION_S = 600.0
"""Time for which an answer about reservations holds."""
_SACCT_TIMEOUT_S = 10.0
_SACCT_PAUSE_S = 300.0
"""After a failure: a database that hangs must not cost every pass its time."""
_SACCT_LAG_S = 1.5
"""The database hears of an end a moment after the listing shows it."""
_AGAIN = "it is tried again"
_SQUEUE = ("squeue", "--me", "--noheader", "--array", "--all", "--states=all",
           f"--Format={LISTING}")  # fmt: skip
_GONE = ("Invalid job id", "already completing or completed", "already finished")
_FATAL_REFUSALS = (
    "Invalid account", "Invalid partition", "invalid partition", "Invalid qos",
    "Requested node configuration is not available", "Requested time limit is invalid",
    "Invalid generic resource", "Invalid feature specification",
    "Memory specification can not be satisfied", "Unable to open file",
    "User's group not permitted",
)  # fmt: skip
"""Words in a refusal of sbatch that no waiting will change."""
_NO_ANSWER = ("Socket timed out", "Unable to contact", "timed out", "Zero Bytes", "Connection")
"""Words of a failed sbatch after which a job may exist all the same."""


class SlurmScheduler:
    """The site's Slurm, for the jobs of one run."""

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
        self._names: dict[str, str] = {}
        self._user_id = os.getuid() if user_id is None else user_id
        self._ask_sacct_from = float("-inf")
        self._reserved: tuple[float, float | None] = (float("-inf"), None)

    def snapshot(self) -> QueueReading:
        """One listing of the person's jobs in every state and partition."""
        begun = self._clock.now()
        try:
            done = self.commands.run(_SQUEUE, self._list_timeout_s)
            if done.returncode != 0:
                return UnknownQueue(begun, _first_line(done))
            listing = parse_listing(done.stdout, self._run_id)
        except DaddyError as error:
            return UnknownQueue(begun, error.message)
        except GarbledListingError as error:
            return UnknownQueue(begun, str(error))
        self._names.update(listing.names)
        maintenance_ts = self._maintenance(listing.jobs)
        return Snapshot(begun, listing.jobs, listing.others, maintenance_ts)

    def _maintenance(self, jobs: Sequence[QueueJob]) -> float | None:
        """The start of the reservation that a job waits for; asked only if one does."""
        waiting = (job for job in jobs if job.state is JobState.PENDING)
        if not any(job.waits is WaitReason.RESERVATION for job in waiting):
            return None
        asked, begins = self._reserved
        if self._clock.monotonic() - asked < _RESERVATION_S:
            return begins
        text = self.commands.read_output(("scontrol", "--oneliner", "show", "reservation"))
        partition = str(self._request.get("partition", ""))
        begins = maintenance_begins(text or "", partition, self._clock.now())
        self._reserved = (self._clock.monotonic(), begins)
        return begins

    def submit(self, spec: JobSpec) -> Answer:
        """Write the script and hand it to ``sbatch`` once."""
        write_atomic(spec.script, render_job_script(spec).encode())
        try:
            done = self.commands.run(["sbatch", "--parsable", str(spec.script)], _SUBMIT_TIMEOUT_S)
        except ProcessTimeoutError as error:
            return Unanswered(error.message)
        except ProgramMissingError as error:
            return Refused(error.message, for_good=True)
        answer = parse_sbatch_answer(done)
        if isinstance(answer, Submitted):
            self.commands.count_call("squeue")  # the job itself will ask for its end
        return answer

    def check(self, spec: JobSpec) -> None:
        """Let Slurm judge the script without queueing it; SchedulerError with its words."""
        write_atomic(spec.script, render_job_script(spec).encode())
        done = self._run(["sbatch", "--test-only", str(spec.script)], "is Slurm up? try: sinfo")
        if done.returncode != 0:
            raise SchedulerError(
                f"Slurm would not take the job: {_first_line(done)}",
                "correct the slurm section of the config (sinfo shows the partitions) or pass "
                "--partition; if Slurm is down, try again later",
            )

    def signal(self, job: JobRef) -> None:
        self._scancel(job, "--signal=USR1", "--batch")

    def cancel(self, job: JobRef) -> None:
        self._scancel(job)

    def _scancel(self, job: JobRef, *options: str) -> None:
        """The name holds the token: with both given, scancel touches a job only if both fit."""
        named = f"--name={self._name_of(job)}"
        self._demand(["scancel", *options, named, str(job.job_id)], gone=_GONE)

    def _name_of(self, job: JobRef) -> str:
        """The site's name for the job: a listing may have known it by its comment alone."""
        return self._names.get(job.token, job_name(self._run_id, job.token))

    def amend(self, job: JobRef, change: Amend) -> None:
        """Change a waiting job. ``scontrol`` goes by ids alone, so id and name are compared first.

        Nodes and limit leave a waiting job its age. A hold takes it (Slurm 22.05 with accounting).
        """
        shown = self._demand(["scontrol", "--oneliner", "show", "job", str(job.job_id)])
        if not is_same_job(shown.stdout, job.job_id, self._name_of(job)):
            raise SchedulerError(f"job {job.job_id} is not ours any more", "nothing is to be done")
        for argv in amend_commands(job.job_id, change):
            self._demand(argv)

    def _demand(self, argv: Sequence[str], gone: tuple[str, ...] = ()) -> Completed:
        """Run a command that must work, but for a job that is ``gone`` already by these words.

        SchedulerError with Slurm's words, also where it says nothing.
        """
        done = self._run(argv, _AGAIN)
        if done.returncode != 0 and not any(words in done.stderr for words in gone):
            raise SchedulerError(f"{argv[0]} failed: {_first_line(done)}", _AGAIN)
        return done

    def _run(self, argv: Sequence[str], remedy: str) -> Completed:
        try:
            return self.commands.run(argv, _SUBMIT_TIMEOUT_S)
        except DaddyError as error:
            raise SchedulerError(error.message, remedy) from error

    def read_ends(self, jobs: Sequence[JobRef]) -> tuple[QueueJob, ...]:
        """The ends of these jobs; ``canceller`` is set where another user cancelled."""
        found = self._ask_sacct(jobs)
        if found is not None and len(found) < len(jobs):
            self._clock.wait(threading.Event(), _SACCT_LAG_S)
            found = self._ask_sacct(jobs)
        return found or ()

    def _ask_sacct(self, jobs: Sequence[JobRef]) -> tuple[QueueJob, ...] | None:
        """None where there is no answer; a site whose accounting is switched off is asked once."""
        if not jobs or self._clock.monotonic() < self._ask_sacct_from:
            return None
        try:
            done = self.commands.run(sacct_argv([job.job_id for job in jobs]), _SACCT_TIMEOUT_S)
        except DaddyError as error:
            done = Completed(1, "", error.message)
        if done.returncode != 0:
            disabled = "storage is disabled" in done.stderr
            self._ask_sacct_from = inf if disabled else self._clock.monotonic() + _SACCT_PAUSE_S
            return None
        tokens = {job.job_id: job.token for job in jobs}
        return parse_ends(done.stdout, self._run_id, tokens, self._user_id)

    def read_limits(self) -> tuple[SiteLimits, str]:
        """Limits of associations and QOS, as far as they are enforced and can be read soon."""
        until = self._clock.monotonic() + _SITE_S

        def ask(argv: Sequence[str]) -> str | None:
            return self.commands.read_output(argv, until - self._clock.monotonic())

        return read_site(ask, user_name(), self._request)


def parse_sbatch_answer(done: Completed) -> Answer:
    """The answer of ``sbatch --parsable``, whatever a site's plugins print around the id."""
    lines = (line.strip() for line in done.stdout.splitlines())
    found = [match for line in lines if (match := re.fullmatch(r"(\d+)(;\S+)?", line))]
    if done.returncode == 0 and found:
        return Submitted(int(found[-1][1]))
    why, said = _first_line(done), done.stderr
    refused = "Batch job submission failed" in said or "sbatch: error" in said
    if done.returncode != 0 and refused and not any(words in said for words in _NO_ANSWER):
        for_good = any(words in said for words in _FATAL_REFUSALS)
        return Refused(why, for_good, limit="MaxSubmitJob" in said)
    return Unanswered(why)


def is_same_job(text: str, job_id: int, name: str) -> bool:
    """Whether ``scontrol --oneliner show job`` shows the job of this id *and* name."""
    first = re.match(r"JobId=(\d+) (?:ArrayJobId=\S+ ArrayTaskId=\S+ )?JobName=(.*?) \w+=", text)
    return first is not None and (int(first[1]), first[2]) == (job_id, name)


def amend_commands(job_id: int, change: Amend) -> list[list[str]]:
    """The ``scontrol`` commands of a change. A limit is cut to whole minutes, Slurm's unit.

    ``uhold``, because a hold by an operator's account could not be told from an administrator's.
    """
    facts = []
    if change.exclude is not None:
        facts.append(f"ExcNodeList={','.join(change.exclude)}")
    if change.limit_s is not None:
        facts.append(f"TimeLimit={max(1, change.limit_s // 60)}")
    commands = [["scontrol", "update", f"JobId={job_id}", *facts]] if facts else []
    if change.hold is not None:
        commands.append(["scontrol", "uhold" if change.hold else "release", str(job_id)])
    return commands


def _first_line(done: Completed) -> str:
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [f"exit code {done.returncode} without a word"])[0][:300]
