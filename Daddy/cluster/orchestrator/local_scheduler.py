"""A scheduler on this machine, with Slurm's functions: a job cap, time limits, a listing.

Each submission starts a ``local_job``, which survives the controller and waits for one of
``cap`` places; the listing is read from the files of ``local_queue_files``. Processes are
identified by process id and creation time.
"""

import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from Daddy.cluster.orchestrator.action_types import Amend
from Daddy.cluster.orchestrator.controller_types import (
    JobState,
    QueueJob,
    QueueReading,
    SiteLimits,
    Snapshot,
    UnknownQueue,
)
from Daddy.cluster.orchestrator.local_queue_files import (
    BOOT_S,
    ENDED,
    LocalJobFiles,
    is_held,
    live_jobs,
    new_job,
)
from Daddy.cluster.orchestrator.scheduler_interface import JobRef, JobSpec, SubmitResult, Submitted
from Daddy.core.atomic_files import write_atomic
from Daddy.core.clock import Clock
from Daddy.core.errors import FileError, SchedulerError
from Daddy.core.host_and_processes import is_alive, signal_process
from Daddy.core.load_config import CHECKOUT
from Daddy.core.run_subprocess import running_pids, start_background

_REMEMBERED_S = 300.0
"""Seconds an ended job stays in the listing (Slurm's MinJobAge)."""


class LocalScheduler:
    """Queues the jobs of one run on this machine; ``cap``: jobs that run at once."""

    def __init__(self, queue: Path, cap: int, clock: Clock, kill_wait_s: float = 10.0) -> None:
        self._queue = queue
        self._cap = cap
        self._clock = clock
        self._kill_wait_s = kill_wait_s

    def submit(self, spec: JobSpec) -> SubmitResult:
        files = new_job(self._queue)
        files.write("job", self._record(spec))
        write_atomic(spec.script, _script(spec).encode())
        self._start_runner(files, spec)
        return Submitted(files.job_id)

    def _record(self, spec: JobSpec) -> dict[str, Any]:
        return {
            "v": 1,
            "token": spec.token,
            "number": spec.number,
            "argv": list(spec.argv),
            "environment": dict(spec.environment),
            "visible_gpus": os.environ.get("CUDA_VISIBLE_DEVICES"),  # for the last release
            "work_dir": str(spec.work_dir),
            "logs": str(spec.logs),
            "time_limit_s": spec.time_limit_s,
            "warn_s": spec.warn_s,
            "kill_wait_s": self._kill_wait_s,
            "cap": self._cap,
            "submitted_ts": self._clock.now(),
        }

    def _start_runner(self, files: LocalJobFiles, spec: JobSpec) -> None:
        """Start the job's runner in its own session, with the code of the job's release.

        That may be another release than ours, so the module's name is the same in all releases.
        """
        code = spec.environment.get("PYTHONPATH", str(CHECKOUT))
        argv = [sys.executable, "-m", "Daddy.cluster.orchestrator.local_job", str(files.folder)]
        env = {**os.environ, "PYTHONPATH": code}
        start_background(argv, log_path=self._queue / "keepers.log", env=env)

    def snapshot(self) -> QueueReading:
        """Return the jobs of the queue; move those that ended over 5 minutes ago to ``ended/``."""
        begun = self._clock.now()
        running_pids()  # reap runners that have ended
        try:
            jobs = [self._read(files, begun) for files in live_jobs(self._queue)]
        except FileError as error:
            return UnknownQueue(begun, error.message)
        return Snapshot(begun, tuple(job for job in jobs if job is not None))

    def _read(self, files: LocalJobFiles, now: float) -> QueueJob | None:
        spec = files.read_or_raise("job")
        if spec is None:
            return None
        start, end = files.read_or_raise("start") or {}, files.read_or_raise("end")
        if end is not None:
            if now - float(end["ended_ts"]) > _REMEMBERED_S:
                files.folder.rename(self._queue / ENDED / files.folder.name)
                return None
            state, word = JobState.ENDED, str(end["word"])
        else:
            state, word = self._state(files, spec, bool(start), now)
        why = "Held" if is_held(files) else "no free place"
        return QueueJob(
            job_id=files.job_id,
            token=spec["token"],
            state=state,
            slurm_state=word,
            slurm_reason=why if state is JobState.PENDING else "",
            node="localhost" if start else "",
            started_ts=start.get("started_ts"),
            ends_ts=start.get("ends_ts"),
            exit_code=None if end is None else end["exit_code"],
        )

    def _state(
        self, files: LocalJobFiles, spec: dict[str, Any], started: bool, now: float
    ) -> tuple[JobState, str]:
        """Return a job's state; one without its runner counts as running while its process does."""
        runner, child = files.process("process"), files.process("start")
        if runner is None and files.read_record("cancel") is not None:
            return JobState.ENDED, "CANCELLED"  # a runner that starts later sees the file
        if runner is None and now - float(spec["submitted_ts"]) < BOOT_S:
            return JobState.PENDING, "PENDING"
        if any(process is not None and is_alive(process) for process in (runner, child)):
            state = JobState.RUNNING if started else JobState.PENDING
            return state, state.name
        if files.read_record("end") is not None:  # just ended: the next listing has its end
            return JobState.RUNNING, "COMPLETING"
        return JobState.ENDED, "LOST"

    def signal(self, job: JobRef) -> None:
        self._send(job, "start", signal.SIGUSR1)

    def cancel(self, job: JobRef) -> None:
        files = self._find(job)
        if files is not None:
            with contextlib.suppress(OSError):  # full disk: the signal is enough
                files.write("cancel", {"ts": self._clock.now()})
        if not self._send(job, "process", signal.SIGTERM):
            self._send(job, "start", signal.SIGKILL)

    def amend(self, job: JobRef, change: Amend) -> None:
        """Write ``change.hold`` to ``amend.json``; the local queue ignores nodes and limits."""
        files = self._find(job)
        if files is None:
            gone = f"job {job.job_id} has left the queue, or its number belongs to another job"
            raise SchedulerError(gone, "do nothing: the next pass reads the queue again")
        if change.hold is not None:
            files.write("amend", {"hold": change.hold})

    def read_ended_jobs(self, jobs: Sequence[JobRef]) -> tuple[QueueJob, ...]:
        """Return nothing: the listing contains the ends of local jobs."""
        del jobs
        return ()

    def read_drained_nodes(self, nodes: Collection[str]) -> Mapping[str, str]:
        """Return nothing: the local queue drains no node."""
        del nodes
        return {}

    def read_limits(self) -> tuple[SiteLimits, str]:
        """Return the number of places as the limit of running jobs."""
        return SiteLimits(max_running=self._cap, enforced=True), "the local queue's places"

    def _find(self, job: JobRef) -> LocalJobFiles | None:
        """Return the job's files, or None if the number belongs to another job."""
        files = LocalJobFiles(self._queue / f"{job.job_id:06d}")
        spec = files.read_record("job")
        return files if spec is not None and spec["token"] == job.token else None

    def _send(self, job: JobRef, name: str, number: int) -> bool:
        files = self._find(job)
        process = files.process(name) if files is not None else None
        return process is not None and signal_process(process, number)


def _script(spec: JobSpec) -> str:
    """Return the job as a shell script, for a person to read or to run by hand."""
    exports = [f"export {key}={shlex.quote(value)}" for key, value in spec.environment.items()]
    change = f"cd {shlex.quote(str(spec.work_dir))}"
    return "\n".join(["#!/bin/bash", *exports, change, f"exec {shlex.join(spec.argv)}", ""])
