"""Adapter for Slurm: implements ``Scheduler`` with sbatch, squeue, scancel, scontrol and sacct.

A listing that fails or has a damaged line is an ``UnknownQueue``. A submission without an answer
may have made a job: its sbatch is killed at the timeout, so a later listing shows the job, if any.
Jobs are signalled, cancelled and changed only where id *and* token match.
"""

import contextlib
import os
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

from Daddy.cluster.orchestrator.action_types import Amend
from Daddy.cluster.orchestrator.control_files import read_identity, update_identity
from Daddy.cluster.orchestrator.controller_types import (
    JobState,
    QueueJob,
    QueueReading,
    SiteLimits,
    Snapshot,
    UnknownQueue,
    WaitReason,
)
from Daddy.cluster.orchestrator.scheduler_interface import (
    JobRef,
    JobSpec,
    Refused,
    SubmitResult,
    Submitted,
    Unanswered,
)
from Daddy.cluster.orchestrator.slurm_commands import SlurmCommands, name_settings
from Daddy.cluster.orchestrator.slurm_limits import (
    STATES,
    Request,
    describe_closed,
    maintenance_begins,
    read_site,
)
from Daddy.cluster.orchestrator.slurm_sacct import parse_ends, sacct_argv
from Daddy.cluster.orchestrator.slurm_squeue import (
    LISTING,
    GarbledListingError,
    job_name,
    parse_listing,
)
from Daddy.cluster.orchestrator.slurm_templates import render_job_script
from Daddy.core.atomic_files import write_atomic
from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError, SchedulerError
from Daddy.core.host_and_processes import user_name
from Daddy.core.humanize import printable_line
from Daddy.core.run_paths import RunPaths
from Daddy.core.run_subprocess import Completed, ProcessTimeoutError, ProgramMissingError

_COMMAND_TIMEOUT_S = 40.0
"""Of sbatch, scancel and scontrol; more than the 9 to 10 s that they wait for slurmctld."""
_LIST_TIMEOUT_S = 30.0
_LIMITS_TIMEOUT_S = 15.0
"""For all commands that read the site's limits: the first submissions wait for them."""
_RESERVATIONS_REUSED_S = 600.0
"""Seconds before the maintenance reservations are read again."""
LONGEST_CLOSED_REUSED_S = 60.0
"""Most seconds before the states of partitions and nodes are read again."""
_SACCT_TIMEOUT_S = 10.0
_SACCT_PAUSE_S = 300.0
"""Seconds without calls of sacct after one failed, because each pass would wait for it."""
_RETRY_DELAY_S = 1.5
"""Seconds before sacct or sinfo runs again for missing rows: they lag behind squeue."""
_RETRY_TEXT = "the controller tries it again"
_SQUEUE = ("squeue", "--noheader", "--array", "--all", "--states=all")
_LIST_IDS = "--Format=UserID:16|,JobID:16|"
_UNKNOWN_USER = "Invalid user:"
"""Part of squeue's error where the system's user database lacks the uid: it lists no job then,
with exit code 0. ``--user`` with the number does the same (Slurm 22.05)."""
_SINFO = ("sinfo", "--Node", "--noheader", "--all", "--states=drain", "--format=%N|%E")
_STATES = ("sinfo", "--noheader", "--all")
_SINFO_TIMEOUT_S = 10.0
_ALREADY_ENDED = ("Invalid job id", "already completing or completed", "already finished")
"""Parts of scancel errors which mean that the job has ended already."""
_UNKNOWN_OPTION = "unrecognized option"
_FATAL_REFUSALS = (
    "Invalid account", "Invalid partition", "invalid partition", "Invalid qos",
    "Requested node configuration is not available", "Requested time limit is invalid",
    "Invalid generic resource", "Invalid feature specification",
    "Memory specification can not be satisfied", "Unable to open file",
    "User's group not permitted", "Requested reservation is invalid", "Invalid license",
    "More processors requested", "Invalid node name", _UNKNOWN_OPTION,
)  # fmt: skip
"""Parts of sbatch errors that repeat whenever the same job is submitted."""
_REFUSED = ("Batch job submission failed", "sbatch: error", _UNKNOWN_OPTION)
_MAY_EXIST = ("Socket timed out", "Unable to contact", "timed out", "Zero Bytes", "Connection")
"""Parts of sbatch errors after which the job may exist nevertheless."""


class SlurmScheduler:
    """Submits, lists and changes the jobs of one run in Slurm."""

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
        run: RunPaths | None = None,
        closed_reused_s: float = LONGEST_CLOSED_REUSED_S,
    ) -> None:
        """Initialise; ``calls``: folder of call counts, ``request``: sbatch options of the jobs.

        ``run``: the run whose identity names the cluster that listings must come from.
        ``closed_reused_s``: seconds before the states of partitions and nodes are read again.
        """
        self._run = run
        self._run_id = run_id
        self._clock = clock
        self._request = dict(request or {})
        self._list_timeout_s = list_timeout_s or _LIST_TIMEOUT_S
        self.commands = SlurmCommands(clock, os.environ if environ is None else environ, calls)
        self._names: dict[str, str] = {}
        self._user_id = os.getuid() if user_id is None else user_id
        self._sacct_allowed_s = float("-inf")
        self._last_maintenance: tuple[float, float | None] = (float("-inf"), None)
        self._last_closed = (float("-inf"), "")
        self.closed_reused_s = min(closed_reused_s, LONGEST_CLOSED_REUSED_S)

    def snapshot(self) -> QueueReading:
        """List the person's jobs: this run's in ``jobs``, all others in ``others``."""
        begun = self._clock.now()
        try:
            if wrong := self._find_other_cluster():
                return UnknownQueue(begun, wrong)
            result = self._list_jobs()
            if result.returncode != 0:
                return UnknownQueue(begun, _error_line(result))
            listing = parse_listing(result.stdout, self._run_id)
        except DaddyError as error:
            return UnknownQueue(begun, error.message)
        except GarbledListingError as error:
            return UnknownQueue(begun, str(error))
        self._names.update(listing.names)
        maintenance_ts = self._read_maintenance(listing.jobs)
        closed = self._read_closed(listing.jobs)
        return Snapshot(begun, listing.jobs, listing.others, maintenance_ts, closed)

    def _list_jobs(self) -> Completed:
        """List the user's jobs; for a uid without a user, by the ids that all users' listing has.

        That listing has numbers only: another user's job name could otherwise imitate a line.
        """
        ours = (*_SQUEUE, f"--Format={LISTING}")
        result = self.commands.run((*ours, "--me"), self._list_timeout_s)
        if _UNKNOWN_USER not in result.stderr:
            return result
        result = self.commands.run((*_SQUEUE, _LIST_IDS), self._list_timeout_s)
        rows = (line.split("|") for line in result.stdout.splitlines())
        ids = dict.fromkeys(row[1].strip() for row in rows if row[0].strip() == str(self._user_id))
        if result.returncode != 0 or not ids:
            return replace(result, stdout="")
        return self.commands.run((*ours, f"--jobs={','.join(ids)}"), self._list_timeout_s)

    def _find_other_cluster(self) -> str:
        """Return a reason to believe no listing; "" if the cluster is the run's, or not known.

        With another cluster's ``SLURM_CONF``, squeue lists none of our jobs with exit code 0.
        """
        identity = read_identity(self._run) if self._run is not None else None
        if self._run is None or identity is None or not identity.cluster:
            return ""
        if identity.asked == self.commands.place:
            return ""
        name = self.read_cluster()
        if name != identity.cluster:
            answer = f"cluster {name} answers" if name else "scontrol names no cluster"
            return f"{answer} here, and this run's jobs are on {identity.cluster}"
        with contextlib.suppress(OSError):  # then it is asked again
            update_identity(self._run, replace(identity, asked=self.commands.place))
        return ""

    def read_cluster(self) -> str:
        """Return the name of the cluster that answers here; "" without an answer."""
        text = self.commands.read_output(("scontrol", "show", "config")) or ""
        match = re.search(r"^ClusterName\s*=\s*(\S+)", text, re.MULTILINE)
        return match[1] if match else ""

    def _read_maintenance(self, jobs: Sequence[QueueJob]) -> float | None:
        """Return the start of the next maintenance (wall seconds) if a job waits for it to end."""
        waiting = (job for job in jobs if job.state is JobState.PENDING)
        if not any(job.wait_reason is WaitReason.RESERVATION for job in waiting):
            return None
        read_s, begins_ts = self._last_maintenance
        if self._clock.monotonic() - read_s < _RESERVATIONS_REUSED_S:
            return begins_ts
        text = self.commands.read_output(("scontrol", "--oneliner", "show", "reservation"))
        partition = str(self._request.get("partition", ""))
        begins_ts = maintenance_begins(text or "", partition, self._clock.now())
        self._last_maintenance = (self._clock.monotonic(), begins_ts)
        return begins_ts

    def _read_closed(self, jobs: Sequence[QueueJob]) -> str:
        """Return Slurm's words if no waiting job can start: a job's own reason may hide that.

        1. A job waits for its predecessor. 2. Its partition goes down. 3. squeue says "Dependency".
        """
        if not any(job.state is JobState.PENDING for job in jobs):
            return ""
        read_s, closed = self._last_closed
        if self._clock.monotonic() - read_s >= self.closed_reused_s:
            timeout_s = min(_SINFO_TIMEOUT_S, self._list_timeout_s)
            text = self.commands.read_output((*_STATES, f"--format={STATES}"), timeout_s)
            closed = printable_line(describe_closed(text or "", self._request))
            self._last_closed = (self._clock.monotonic(), closed)
        return closed

    def submit(self, spec: JobSpec) -> SubmitResult:
        """Write the script and run ``sbatch`` once."""
        write_atomic(spec.script, render_job_script(spec).encode())
        try:
            result = self.commands.run(
                ("sbatch", "--parsable", str(spec.script)), _COMMAND_TIMEOUT_S
            )
        except ProcessTimeoutError as error:
            return Unanswered(error.message)
        except ProgramMissingError as error:
            return Refused(error.message, permanent=True)
        answer = parse_sbatch_answer(result)
        if isinstance(answer, Submitted):  # counted here, because the job will run squeue once
            self.commands.count_call("squeue")
        return answer

    def check_script(self, spec: JobSpec) -> None:
        """Run ``sbatch --test-only``; SchedulerError with Slurm's message where it refuses."""
        write_atomic(spec.script, render_job_script(spec).encode())
        argv = ["sbatch", "--test-only", str(spec.script)]
        result = self._run_unchecked(argv, "is Slurm up? try: sinfo")
        if result.returncode != 0:
            raise SchedulerError(
                f"Slurm would not take the job: {_error_line(result)}",
                f"correct {name_settings(result.stderr) or 'the slurm section'} in the config "
                "(`sinfo -o '%P %G %f'` lists partitions, GPUs and features) or pass --partition; "
                "if Slurm is down, try again later",
            )

    def signal(self, job: JobRef) -> None:
        self._scancel(job, "--signal=USR1", "--batch")

    def cancel(self, job: JobRef) -> None:
        self._scancel(job)

    def _scancel(self, job: JobRef, *options: str) -> None:
        """Run scancel with id and name (which has the token): it acts only where both match."""
        name = f"--name={self._name_of(job)}"
        self._run_checked(["scancel", *options, name, str(job.job_id)], harmless=_ALREADY_ENDED)

    def _name_of(self, job: JobRef) -> str:
        """Return the job's name as last listed: some sites change the submitted name."""
        return self._names.get(job.token, job_name(self._run_id, job.token))

    def amend(self, job: JobRef, change: Amend) -> None:
        """Change a waiting job, after comparing its id and name (``scontrol`` takes ids alone).

        A hold resets the job's priority by age (Slurm 22.05 with accounting), other changes do not.
        """
        result = self._run_checked(["scontrol", "--oneliner", "show", "job", str(job.job_id)])
        if not is_same_job(result.stdout, job.job_id, self._name_of(job)):
            raise SchedulerError(f"job {job.job_id} is not ours any more", "nothing is to be done")
        for argv in amend_commands(job.job_id, change):
            self._run_checked(argv)

    def _run_checked(self, argv: Sequence[str], harmless: tuple[str, ...] = ()) -> Completed:
        """Run a command; SchedulerError where it fails with an error without a harmless text."""
        result = self._run_unchecked(argv, _RETRY_TEXT)
        if result.returncode != 0 and not any(text in result.stderr for text in harmless):
            raise SchedulerError(f"{argv[0]} failed: {_error_line(result)}", _RETRY_TEXT)
        return result

    def _run_unchecked(self, argv: Sequence[str], remedy: str) -> Completed:
        """Run a command that may fail; SchedulerError where it is missing or takes too long."""
        try:
            return self.commands.run(argv, _COMMAND_TIMEOUT_S)
        except DaddyError as error:
            raise SchedulerError(error.message, remedy) from error

    def read_ended_jobs(self, jobs: Sequence[JobRef]) -> tuple[QueueJob, ...]:
        """Return the jobs that sacct lists as ended; it runs a second time where some lack."""
        ended = self._run_sacct(jobs)
        if ended is not None and len(ended) < len(jobs):
            self._clock.wait(threading.Event(), _RETRY_DELAY_S)
            ended = self._run_sacct(jobs)
        return ended or ()

    def _run_sacct(self, jobs: Sequence[JobRef]) -> tuple[QueueJob, ...] | None:
        """Return the ended jobs, or None where sacct fails (it is then not run for a while)."""
        if not jobs or self._clock.monotonic() < self._sacct_allowed_s:
            return None
        try:
            result = self.commands.run(sacct_argv([job.job_id for job in jobs]), _SACCT_TIMEOUT_S)
        except DaddyError as error:
            result = Completed(1, "", error.message)
        if result.returncode != 0:
            disabled = "storage is disabled" in result.stderr
            self._sacct_allowed_s = inf if disabled else self._clock.monotonic() + _SACCT_PAUSE_S
            return None
        tokens = {job.job_id: job.token for job in jobs}
        return parse_ends(result.stdout, self._run_id, tokens, self._user_id)

    def read_drained_nodes(self, nodes: Collection[str]) -> Mapping[str, str]:
        """Return those of the nodes that are drained, with the reason; asked twice where some lack.

        1. A prolog fails. 2. slurmd cancels the job. 3. It reports the prolog, and slurmctld drains
        the node: a listing between 2 and 3 shows the job's end and a healthy node.
        """
        drained = self._run_sinfo(nodes)
        if drained is not None and len(drained) < len(nodes):
            self._clock.wait(threading.Event(), _RETRY_DELAY_S)
            drained = self._run_sinfo(nodes)
        return drained or {}

    def _run_sinfo(self, nodes: Collection[str]) -> dict[str, str] | None:
        """Return the reason of each drained node, or None where sinfo fails."""
        text = self.commands.read_output((*_SINFO, f"--nodes={','.join(sorted(nodes))}"))
        if text is None:
            return None
        rows = (line.partition("|") for line in text.splitlines())
        return {node: printable_line(reason) for node, bar, reason in rows if bar}

    def read_limits(self) -> tuple[SiteLimits, str]:
        """Read the enforced limits of associations and QOS within ``_LIMITS_TIMEOUT_S``."""
        until = self._clock.monotonic() + _LIMITS_TIMEOUT_S

        def run_query(argv: Sequence[str]) -> str | None:
            return self.commands.read_output(argv, until - self._clock.monotonic())

        return read_site(run_query, user_name(), self._request)


def parse_sbatch_answer(result: Completed) -> SubmitResult:
    """Parse the output of ``sbatch --parsable``; ignore lines that a site's plugins print."""
    lines = (line.strip() for line in result.stdout.splitlines())
    matches = [match for line in lines if (match := re.fullmatch(r"(\d+)(;\S+)?", line))]
    if result.returncode == 0 and matches:
        return Submitted(int(matches[-1][1]))
    message, text = _error_line(result), result.stderr
    refused = any(part in text for part in _REFUSED)
    if result.returncode != 0 and refused and not any(words in text for words in _MAY_EXIST):
        permanent = any(words in text for words in _FATAL_REFUSALS)
        settings = name_settings(text) if permanent else ""
        message += f" (see {settings})" if settings else ""
        return Refused(message, permanent, too_many_waiting="MaxSubmitJob" in text)
    return Unanswered(message)


def is_same_job(text: str, job_id: int, name: str) -> bool:
    """Return True where ``scontrol --oneliner show job`` shows this id *and* name."""
    match = re.match(r"JobId=(\d+) (?:ArrayJobId=\S+ ArrayTaskId=\S+ )?JobName=(.*?) \w+=", text)
    return match is not None and (int(match[1]), match[2]) == (job_id, name)


def amend_commands(job_id: int, change: Amend) -> list[list[str]]:
    """Return the ``scontrol`` commands of a change; a time limit is cut to whole minutes."""
    settings = []
    if change.exclude is not None:
        settings.append(f"ExcNodeList={','.join(change.exclude)}")
    if change.limit_s is not None:
        settings.append(f"TimeLimit={max(1, change.limit_s // 60)}")
    commands = [["scontrol", "update", f"JobId={job_id}", *settings]] if settings else []
    if change.hold is not None:  # uhold: an operator's plain hold looks like an administrator's
        commands.append(["scontrol", "uhold" if change.hold else "release", str(job_id)])
    return commands


def _error_line(result: Completed) -> str:
    """Return the first line of standard error with "error", else its first, else the exit code."""
    lines = [line.strip() for line in result.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [f"exit code {result.returncode} without a message"])[0][:300]
