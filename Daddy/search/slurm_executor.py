"""Adapter for Slurm: runs attempts of trials as jobs, one job for each attempt on all its ranks.

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
from Daddy.cluster.orchestrator.slurm_commands import parse_job_options, read_shell_settings
from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler
from Daddy.core.atomic_files import sha256_hex
from Daddy.core.clock import Clock
from Daddy.core.errors import ExitCode, FileError, SchedulerError
from Daddy.core.humanize import parse_duration
from Daddy.core.lease import end_term, is_holder_alive, read_lease
from Daddy.core.load_config import CHECKOUT, with_values
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config
from Daddy.core.stop_conditions import drain_margin
from Daddy.search.local_executor import TrialAttempt, learner_argv
from Daddy.search.slurm_rules import SWEEP, find_job_refusal, read_exit_codes
from Daddy.search.sweep_files import SweepPaths, read_sweep
from Daddy.search.trial_log import TrialLog

LOOK_S = 2.0
"""Shortest time between two listings of the queue."""
ABSENT_S = 60.0
"""Seconds without a job in complete listings after which it is gone; more than sbatch may take."""
GRACE_S, RANKS_GRACE_S = 15.0, 60.0
"""Seconds after the request to stop in which a job may write its checkpoint; ranks on several nodes
finish their rollout first."""
RETRY_S = 30.0
"""Seconds until a submission that the site refused for now is tried again."""


def with_job_settings(
    base: Config, words: Sequence[str], nodes: int, environ: Mapping[str, str]
) -> Config:
    """Return the configuration with what SBATCH_ variables and ``time=`` of `words` set.

    The learner has to know its job's time limit. GPUs of a job on several nodes are counted for
    each of them. ConfigError.
    """
    values, _ = read_shell_settings(base.slurm, environ)
    if nodes > 1 and base.slurm.gpu_option == "gpus":
        values["slurm.gpu_option"] = "gpus-per-node"
    if limit := parse_job_options(words).get("time"):
        values["slurm.time_limit"] = limit
    return with_values(base, values, "--sbatch and the SBATCH_ variables") if values else base


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
    """Runs attempts as jobs, at most `jobs` of them at once, each with a rank on `nodes` nodes."""

    def __init__(
        self,
        paths: SweepPaths,
        config: Config,
        words: Sequence[str],
        jobs: int,
        nodes: int,
        environ: Mapping[str, str],
        clock: Clock,
    ) -> None:
        """Initialise; `words`: options of sbatch. SchedulerError where there is no Slurm."""
        if shutil.which("sbatch", path=environ.get("PATH", os.defpath)) is None:
            raise SchedulerError(
                "--backend slurm: there is no sbatch on this machine",
                "type the command on the cluster's login node, or leave out --backend slurm",
            )
        given = {**slurm_request(config), **parse_job_options(words)}
        self._request = {name: value for name, value in given.items() if value and name != "time"}
        self._paths, self._config, self._most, self._nodes = paths, config, jobs, nodes
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
                self._ended[name] = self._find_end(job, found)
        for attempt in list(self._waiting.values()):
            self._start_or_wait(attempt)

    def _request_end(self, job: _Job, found: QueueJob) -> None:
        """Signal a running job that is to end, and cancel it some time later; cancel a waiting one.

        A request that fails is repeated.
        """
        now, grace_s = self._clock.monotonic(), GRACE_S if self._nodes == 1 else RANKS_GRACE_S
        if job.end_at is None or now < job.end_at:
            return
        reference = JobRef(found.job_id, job.token)
        with suppress(SchedulerError):
            if job.end_requested or found.state is JobState.PENDING:
                self._scheduler.cancel(reference)
            else:
                self._scheduler.signal(reference)
            job.end_requested, job.end_at = True, now + grace_s

    def _has_vanished(self, job: _Job) -> bool:
        """Return True if a job that a complete listing lacks is gone."""
        now = self._clock.monotonic()
        job.absent_since = now if job.absent_since is None else job.absent_since
        ended = bool(_read_goodbyes(job.attempt.folder, job.token))
        return ended or now - job.absent_since >= ABSENT_S

    def _find_end(self, job: _Job, found: QueueJob | None) -> dict[int, int | None]:
        """Return the exit codes of the ranks of a job that ended, or that Slurm lists no more."""
        goodbyes = _read_goodbyes(job.attempt.folder, job.token)
        if len(goodbyes) < self._nodes and found is None and job.job_id is not None:
            found = next(
                iter(self._scheduler.read_ended_jobs([JobRef(job.job_id, job.token)])), None
            )
        return read_exit_codes(goodbyes, self._nodes, found)

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
        elif codes := self._read_unseen_end(attempt, tokens, jobs):
            del self._waiting[attempt.name]
            self._started.add(attempt.run_id)
            self._ended[attempt.name] = codes
        elif reason := self._find_refusal():
            if not self._wait_printed:
                self._print(f"{attempt.run_id}: waits: {reason}")
            self._wait_printed = True
        else:
            gone = {job.token for job in known} | self._gone.intersection(tokens)
            end_slots(attempt.folder, self._nodes, gone)
            self._submit(attempt, tokens[0])

    def _read_unseen_end(
        self, attempt: TrialAttempt, tokens: Sequence[str], jobs: Mapping[str, QueueJob]
    ) -> dict[int, int | None]:
        """Return the exit codes of a job that ended while no driver looked; {} to go on.

        A driver before us that judged it has written its verdict to the journal, unless it was cut
        off.
        """
        if attempt.run_id in self._started:
            return {}
        newest = ((token, _read_goodbyes(attempt.folder, token)) for token in tokens)
        token, goodbyes = next((each for each in newest if each[1]), ("", {}))
        codes = read_exit_codes(goodbyes, self._nodes, jobs.get(token)) if goodbyes else {}
        return {} if ExitCode.DRAINED in codes.values() else codes

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
            nodes=self._nodes,
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


def _read_goodbyes(folder: Path, token: str) -> dict[int, int]:
    """Return the exit code of each rank that said goodbye in the attempt with this token."""
    log = TrialLog(folder)
    log.read()
    ours = {rank: data for rank, data in log.goodbyes.items() if data.get("token") == token}
    codes = {rank: data.get("exit_code") for rank, data in ours.items()}
    return {rank: code for rank, code in codes.items() if isinstance(code, int)}


def end_slots(folder: Path, nodes: int, gone: set[str]) -> None:
    """End the terms of a job that the scheduler lists as ended, in the slots of its ranks."""
    for rank in range(nodes):
        lease = RunPaths(folder).slot(rank).lease
        view = read_lease(lease)
        if view and view.ended is None and view.holder.get("token") in gone:
            end_term(lease, view.term, "the scheduler has ended its job")
