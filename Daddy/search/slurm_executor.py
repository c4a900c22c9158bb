"""Adapter for Slurm: runs attempts of trials as jobs, one job for each attempt.

1. A job's name and comment hold the sweep's mark and a token, which is computed from the sweep and
   the attempt's name. So a driver that was killed, between sbatch and its answer too, leaves jobs
   that the next driver knows by their tokens: it follows such a job instead of starting the trial.
2. An attempt for which there is no room waits here, and is submitted once there is.
3. A listing of the queue without an answer changes nothing. A job has ended if it is listed so, or
   if complete listings lack it for `ABSENT_S`, or lack it and its learner wrote a goodbye.
4. sbatch may be killed and its request be answered later, after a listing without the job. Then a
   second job of the trial starts: it finds the slot held, and its trial counts as cut off.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Daddy.cluster.orchestrator.control_files import read_identity, read_intent
from Daddy.cluster.orchestrator.controller_lease import current_holder
from Daddy.cluster.orchestrator.controller_types import (
    JobState,
    Mode,
    QueueJob,
    QueueReading,
    Snapshot,
)
from Daddy.cluster.orchestrator.scheduler_factory import slurm_request
from Daddy.cluster.orchestrator.scheduler_interface import JobRef, JobSpec, Refused, Submitted
from Daddy.cluster.orchestrator.slurm_commands import read_shell_settings
from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler
from Daddy.core.atomic_files import sha256_hex
from Daddy.core.clock import Clock
from Daddy.core.errors import ConfigError, ExitCode, FileError, SchedulerError
from Daddy.core.humanize import parse_duration
from Daddy.core.lease import end_term, is_holder_alive, read_lease
from Daddy.core.load_config import CHECKOUT, with_values
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import OWN_OPTIONS, Config
from Daddy.core.stop_conditions import drain_margin
from Daddy.search.local_executor import TrialAttempt, learner_argv
from Daddy.search.slurm_rules import SWEEP, find_job_refusal, read_exit_code
from Daddy.search.sweep_files import SweepPaths, read_sweep
from Daddy.search.trial_log import TrialLog

LOOK_S = 2.0
"""Shortest time between two listings of the queue."""
ABSENT_S = 60.0
"""Seconds without a job in complete listings after which it is gone; more than sbatch may take."""
GRACE_S = 15.0
"""Seconds after the request to stop in which a job may write its checkpoint."""
RETRY_S = 30.0
"""Seconds until a submission that the site refused for now is tried again."""


def with_job_settings(base: Config, words: Sequence[str], environ: Mapping[str, str]) -> Config:
    """Return the configuration with what SBATCH_ variables and ``time=`` of `words` set.

    The learner has to know its job's time limit. ConfigError.
    """
    values, _ = read_shell_settings(base.slurm, environ)
    if limit := job_options(words).get("time"):
        values["slurm.time_limit"] = limit
    return with_values(base, values, "--sbatch and the SBATCH_ variables") if values else base


def job_options(words: Sequence[str]) -> dict[str, str]:
    """Return options of sbatch from ``name=value`` words. ConfigError for any other word.

    Some options are the sweep's own: without its name and comment a job is not found again.
    """
    parts = [word.lstrip("-").partition("=") for word in words]
    if bad := [word for word, equals, _ in parts if not equals]:
        raise ConfigError(f"--sbatch {bad[0]} has no value", "write it as mem=8G, for example")
    options = {name.replace("_", "-"): value for name, _, value in parts}
    for name in options.keys() - {"time"}:
        if any(own.startswith(name) for own in OWN_OPTIONS):
            raise ConfigError(f"--sbatch {name} belongs to the sweep", "leave it out")
    return options


@dataclass
class _Job:
    """An attempt's job; times of the clock that only grows."""

    attempt: TrialAttempt
    token: str
    job_id: int | None
    """None while sbatch has not answered and no listing has shown the job."""
    absent_since: float | None = None
    end_at: float | None = None
    """Time of the next request to end; None until the driver asks for it."""
    end_requested: bool = False


class SlurmExecutor:
    """Runs attempts as jobs, at most `jobs` of them at once."""

    def __init__(
        self,
        paths: SweepPaths,
        config: Config,
        words: Sequence[str],
        jobs: int,
        environ: Mapping[str, str],
        clock: Clock,
    ) -> None:
        """Initialise; `words`: options of sbatch. SchedulerError where there is no Slurm."""
        if shutil.which("sbatch", path=environ.get("PATH", os.defpath)) is None:
            raise SchedulerError(
                "--backend slurm: there is no sbatch on this machine",
                "type the command on the cluster's login node, or leave out --backend slurm",
            )
        given = {**slurm_request(config), **job_options(words)}
        self._request = {name: value for name, value in given.items() if value and name != "time"}
        self._paths, self._config, self._most = paths, config, jobs
        self._environ, self._clock = environ, clock
        self._jobs: dict[str, _Job] = {}
        self._waiting: dict[str, TrialAttempt] = {}
        self._ended: dict[str, Mapping[int, int | None]] = {}
        self._started: set[str] = set()
        """Run ids of which this driver has started or followed an attempt."""
        self._gone: set[str] = set()
        """Tokens of jobs that have ended before our eyes."""
        self._queue: Snapshot | None = None
        self._listed_at = self._retry_at = float("-inf")
        self._refusal = ""
        self._wait_printed = False

    def join(self, print_line: Callable[[str], None], _stop: Callable[[], object]) -> None:
        """Read the queue and the site's limits. SchedulerError if Slurm does not answer."""
        record = read_sweep(self._paths)
        self._key = f"{self._paths.root} {record.sweep_id if record else ''}"
        self._mark = f"{SWEEP}{self._paths.root.name}-{sha256_hex(self._key.encode())[:6]}"
        self._print = print_line
        self._scheduler = SlurmScheduler(
            self._mark, self._clock, self._environ, request=self._request
        )
        reading = self._list()
        if not isinstance(reading, Snapshot):
            raise SchedulerError(
                f"--backend slurm: the queue cannot be read: {reading.error}",
                "type `squeue --me` to see it, and the command again once it answers",
            )
        self._site, source = self._scheduler.read_limits()
        print_line(f"at most {self._most} jobs at once; {source}")

    def start(self, attempt: TrialAttempt) -> None:
        """Follow the job that an earlier driver left for this trial, or submit one.

        SchedulerError if the site refuses such jobs for good.
        """
        self._waiting[attempt.name] = attempt
        if self._clock.monotonic() - self._listed_at < LOOK_S:
            self._start_or_wait(attempt)

    def stop(self, name: str) -> None:
        """Ask an attempt's job to write a checkpoint and end; cancel it later, or if it waits."""
        if self._waiting.pop(name, None):
            self._ended[name] = {0: int(ExitCode.DRAINED)}
        elif (job := self._jobs.get(name)) and job.end_at is None:
            job.end_at = self._clock.monotonic()
            for found in self._queue.jobs if self._queue else ():
                if found.token == job.token:
                    self._request_end(job, found)

    def poll(self) -> dict[str, Mapping[int, int | None]]:
        """Return the exit codes of the attempts that have ended since the last call.

        SchedulerError as for `start`.
        """
        late = self._clock.monotonic() - self._listed_at >= LOOK_S
        if late and (self._jobs or self._waiting):
            self._look()
        ended, self._ended = self._ended, {}
        return ended

    def close(self) -> None:
        """Print the jobs that go on; the next driver follows them."""
        if left := [str(job.job_id) for job in self._jobs.values() if job.job_id is not None]:
            self._print(
                f"left in the queue: {', '.join(left)}; the same command follows them, "
                f"`scancel {' '.join(left)}` ends them"
            )

    def _list(self) -> QueueReading:
        reading = self._scheduler.snapshot()
        self._listed_at = self._clock.monotonic()
        self._queue = reading if isinstance(reading, Snapshot) else None
        return reading

    def _look(self) -> None:
        """List the queue; end what has ended, and start what waits."""
        self._list()
        if self._queue is None:
            return
        listed = {job.token: job for job in self._queue.jobs}
        for name, job in list(self._jobs.items()):
            found = listed.get(job.token)
            if found and found.state is not JobState.ENDED:
                job.job_id, job.absent_since = found.job_id, None
                self._request_end(job, found)
            elif found or self._has_vanished(job):
                del self._jobs[name]
                self._gone.add(job.token)
                self._ended[name] = {0: read_exit_code(*self._find_end(job, found))}
        for attempt in list(self._waiting.values()):
            self._start_or_wait(attempt)

    def _request_end(self, job: _Job, found: QueueJob) -> None:
        """Signal a running job that is to end, and cancel it `GRACE_S` later; cancel a waiting one.

        A request that fails is repeated.
        """
        now = self._clock.monotonic()
        if job.end_at is None or now < job.end_at:
            return
        reference = JobRef(found.job_id, job.token)
        with suppress(SchedulerError):
            if job.end_requested or found.state is JobState.PENDING:
                self._scheduler.cancel(reference)
            else:
                self._scheduler.signal(reference)
            job.end_requested, job.end_at = True, now + GRACE_S

    def _has_vanished(self, job: _Job) -> bool:
        """Return True if a job that a complete listing lacks is gone."""
        now = self._clock.monotonic()
        job.absent_since = now if job.absent_since is None else job.absent_since
        ended = _read_goodbye(job.attempt.folder).get("token") == job.token
        return ended or now - job.absent_since >= ABSENT_S

    def _find_end(self, job: _Job, found: QueueJob | None) -> tuple[object, QueueJob | None]:
        """Return the exit code of the learner's goodbye, and the ended job as Slurm lists it."""
        goodbye = _read_goodbye(job.attempt.folder)
        if goodbye.get("token") == job.token:
            return goodbye.get("exit_code"), found
        if found is None and job.job_id is not None:
            found = next(
                iter(self._scheduler.read_ended_jobs([JobRef(job.job_id, job.token)])), None
            )
        return None, found

    def _start_or_wait(self, attempt: TrialAttempt) -> None:
        """Follow, submit, or leave waiting."""
        if self._queue is None:
            return
        tokens = self._tokens(attempt)
        jobs = {job.token: job for job in self._queue.jobs}
        known = [job for token in tokens if (job := jobs.get(token))]
        living = [job for job in known if job.state is not JobState.ENDED]
        if living:
            self._print(f"{attempt.run_id}: goes on in job {living[0].job_id}")
            self._follow(attempt, living[0].token, living[0].job_id)
        elif (code := self._read_unseen_end(attempt, tokens)) is not None:
            del self._waiting[attempt.name]
            self._started.add(attempt.run_id)
            self._ended[attempt.name] = {0: code}
        elif reason := self._find_refusal():
            if not self._wait_printed:
                self._print(f"{attempt.run_id}: waits: {reason}")
            self._wait_printed = True
        else:
            gone = {job.token for job in known} | self._gone.intersection(tokens)
            end_slot(attempt.folder, gone)
            self._submit(attempt, tokens[0])

    def _read_unseen_end(self, attempt: TrialAttempt, tokens: Sequence[str]) -> int | None:
        """Return the exit code of a job that ended while no driver looked; None to go on.

        A driver before us that judged it has written its verdict to the journal, unless it was cut
        off.
        """
        if attempt.run_id in self._started:
            return None
        goodbye = _read_goodbye(attempt.folder)
        code = goodbye.get("exit_code")
        cut_off = (ExitCode.DRAINED, ExitCode.NOT_NEEDED)
        ours = goodbye.get("token") in tokens
        return code if ours and isinstance(code, int) and code not in cut_off else None

    def _find_refusal(self) -> str:
        """Return the reason for which no job can be submitted now, "" if one can."""
        assert self._queue is not None
        if self._clock.monotonic() < self._retry_at:
            return self._refusal
        listed = {job.token for job in self._queue.jobs if job.state is not JobState.ENDED}
        ours = (listed - self._gone) | {job.token for job in self._jobs.values()}
        slots = read_controllers(self._paths.root.parents[1])
        return find_job_refusal(self._queue, len(ours), self._most, slots, self._site)

    def _submit(self, attempt: TrialAttempt, token: str) -> None:
        spec = self._spec(attempt, token)
        spec.logs.mkdir(parents=True, exist_ok=True)
        answer = self._scheduler.submit(spec)
        if isinstance(answer, Refused):
            if answer.permanent:
                raise SchedulerError(
                    f"{attempt.run_id}: sbatch refused: {answer.message}",
                    "correct --sbatch or the slurm settings, then type the command again",
                )
            self._retry_at = self._clock.monotonic() + RETRY_S
            self._refusal = f"sbatch refused: {answer.message}"
            return
        if isinstance(answer, Submitted):
            self._print(f"{attempt.run_id}: job {answer.job_id}")
            self._follow(attempt, token, answer.job_id)
        else:
            self._print(f"{attempt.run_id}: perhaps in a job: {answer.message}")
            self._follow(attempt, token, None)

    def _follow(self, attempt: TrialAttempt, token: str, job_id: int | None) -> None:
        del self._waiting[attempt.name]
        self._started.add(attempt.run_id)
        self._jobs[attempt.name] = _Job(attempt, token, job_id)
        self._wait_printed = False

    def _tokens(self, attempt: TrialAttempt) -> list[str]:
        """Return the token of an attempt, then those of the trial's earlier ones, newest first."""
        names = [f"{attempt.run_id}.{number}" for number in range(_number(attempt), 0, -1)]
        return [sha256_hex(f"{self._key} {name}".encode())[:12] for name in names]

    def _spec(self, attempt: TrialAttempt, token: str) -> JobSpec:
        run, limit_s = RunPaths(attempt.folder), parse_duration(self._config.slurm.time_limit)
        return JobSpec(
            token=token,
            number=_number(attempt),
            run_id=self._mark,
            argv=(*learner_argv(attempt.folder, 0), "--attempt", token),
            environment={"PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1"},
            work_dir=run.root,
            logs=run.logs,
            script=run.scripts / f"attempt-{_number(attempt)}.sbatch",
            time_limit_s=limit_s,
            warn_s=max(1, int(drain_margin(limit_s))),
            setup=tuple(self._config.slurm.setup),
            export=tuple(self._config.slurm.export),
            request=self._request,
        )


def read_controllers(run_dir: Path) -> dict[str, int]:
    """Return run id → open slots of each run in `run_dir` that a controller keeps filled."""
    found: dict[str, int] = {}
    for path in run_dir.glob("*/controller/intent.json"):
        run = RunPaths(path.parents[1])
        with suppress(FileError):  # damaged: its jobs in the queue still count
            intent, identity, view = read_intent(run), read_identity(run), current_holder(run)
            wanted = intent and intent.executor == "slurm" and intent.mode is Mode.RUN
            alive = view is not None and is_holder_alive(view.holder) is not False
            if intent and identity and wanted and alive:
                found[identity.run_id] = len(intent.open_slots)
    return found


def _number(attempt: TrialAttempt) -> int:
    return int(attempt.name.rpartition(".")[2])


def _read_goodbye(folder: Path) -> Mapping[str, Any]:
    """Return the data of the last goodbye of rank 0, {} if it wrote none."""
    log = TrialLog(folder)
    log.read()
    return log.goodbyes.get(0, {})


def end_slot(folder: Path, gone: set[str]) -> None:
    """End the slot's term of a job that the scheduler lists as ended."""
    lease = RunPaths(folder).slot(0).lease
    view = read_lease(lease)
    if view and view.ended is None and view.holder.get("token") in gone:
        end_term(lease, view.term, "the scheduler has ended its job")
