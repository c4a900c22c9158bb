"""Tests the local queue with real processes: waiting, cap, limits, signals, adoption."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from Daddy.cluster.orchestrator.action_types import Amend
from Daddy.cluster.orchestrator.controller_types import JobState, QueueJob, Snapshot, UnknownQueue
from Daddy.cluster.orchestrator.local_job import LocalJob
from Daddy.cluster.orchestrator.local_queue_files import LocalJobFiles, new_job, turn_lock
from Daddy.cluster.orchestrator.local_scheduler import LocalScheduler
from Daddy.cluster.orchestrator.scheduler_interface import JobRef, JobSpec, Submitted
from Daddy.core.clock import SystemClock
from Daddy.core.errors import SchedulerError
from Daddy.core.host_and_processes import is_alive
from Daddy.core.name_validation import new_token
from tests.cluster.conftest import until
from tests.patience import PATIENCE_S

POLITE = """
import signal, sys, time
def leave(*_): print("warned", flush=True); sys.exit(10)
signal.signal(signal.SIGUSR1, leave)
print("ready", flush=True)
time.sleep(60)
"""
STUBBORN = """
import signal, time
for number in (signal.SIGUSR1, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""


class Queue:
    """A scheduler with two places, and helpers for its jobs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.scheduler = LocalScheduler(folder / "queue", 2, SystemClock(), kill_wait_s=0.5)

    def submit(
        self,
        program: str,
        limit_s: int = 60,
        warn_s: int = 1,
        environment: Mapping[str, str] = MappingProxyType({"GREETING": "hello"}),
    ) -> JobRef:
        token = new_token()
        spec = JobSpec(
            token=token,
            number=1,
            run_id="tiny-000000",
            argv=(sys.executable, "-c", program),
            environment=environment,
            work_dir=self.folder,
            logs=self.logs,
            script=self.folder / "scripts" / f"{token}.sbatch",
            time_limit_s=limit_s,
            warn_s=warn_s,
        )
        answer = self.scheduler.submit(spec)
        assert isinstance(answer, Submitted)
        return JobRef(answer.job_id, token)

    def row(self, job: JobRef) -> QueueJob:
        seen = self.scheduler.snapshot()
        assert isinstance(seen, Snapshot)
        return next(row for row in seen.jobs if row.token == job.token)

    def wait(self, job: JobRef, state: JobState) -> QueueJob:
        until(lambda: self.row(job).state is state)
        return self.row(job)

    def out(self, job: JobRef) -> str:
        path = self.logs / f"slurm-{job.job_id}.out"
        return path.read_text() if path.exists() else ""

    def files(self, job: JobRef) -> LocalJobFiles:
        return LocalJobFiles(self.folder / "queue" / f"{job.job_id:06d}")

    def ready(self, job: JobRef) -> None:
        until(lambda: "ready" in self.out(job))


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    made = Queue(tmp_path)
    try:
        yield made
    finally:
        seen = made.scheduler.snapshot()
        assert isinstance(seen, Snapshot)
        for row in seen.jobs:
            if row.exit_code is None:
                made.scheduler.cancel(JobRef(row.job_id, row.token))
        until(lambda: all(r.state is JobState.ENDED for r in made.scheduler.snapshot().jobs))


def test_a_job_runs_logs_where_slurm_would_and_tells_its_exit_code(queue: Queue) -> None:
    program = "import os; print(os.environ['GREETING'], os.environ['DADDY_JOB_ID']); exit(10)"
    job = queue.submit(program)
    row = queue.wait(job, JobState.ENDED)
    assert (row.slurm_state, row.exit_code) == ("FAILED", 10)
    assert queue.out(job) == f"hello {job.job_id}\n"
    assert job.job_id == 1


def test_a_held_job_lets_others_pass_and_runs_once_released(queue: Queue) -> None:
    first, second, held, last = (queue.submit(POLITE) for _ in range(4))
    queue.ready(first)
    queue.ready(second)
    queue.scheduler.amend(held, Amend(held.token, held.job_id, "a guest", hold=True))
    assert queue.row(held).slurm_reason == "Held"
    queue.scheduler.signal(first)
    queue.ready(last)
    queue.scheduler.signal(second)
    queue.wait(second, JobState.ENDED)
    time.sleep(0.3)
    assert queue.row(held).state is JobState.PENDING
    queue.scheduler.amend(held, Amend(held.token, held.job_id, "gone again", hold=False))
    queue.ready(held)


def test_a_strange_token_changes_nothing(queue: Queue) -> None:
    job = queue.submit(POLITE)
    with pytest.raises(SchedulerError):
        queue.scheduler.amend(JobRef(job.job_id, "f" * 12), Amend("f" * 12, 1, "why", hold=True))


def test_our_own_queue_says_what_it_allows_and_asks_nobody(queue: Queue) -> None:
    site, _ = queue.scheduler.read_limits()
    assert (site.max_running, site.enforced) == (2, True)
    assert queue.scheduler.read_ended_jobs([]) == ()


def test_no_more_jobs_run_than_there_are_places_and_a_freed_place_is_taken(queue: Queue) -> None:
    first, second, third = (queue.submit(POLITE) for _ in range(3))
    queue.ready(first)
    queue.ready(second)
    time.sleep(0.5)
    assert queue.row(third).state is JobState.PENDING
    assert queue.row(third).slurm_reason == "no free place"
    queue.scheduler.signal(first)
    assert queue.wait(first, JobState.ENDED).exit_code == 10
    assert queue.wait(third, JobState.RUNNING).started_ts is not None
    assert "warned" in queue.out(first)


def test_a_job_is_warned_before_its_limit_in_seconds(queue: Queue) -> None:
    job = queue.submit(POLITE, limit_s=4, warn_s=3)
    row = queue.wait(job, JobState.ENDED)
    assert (row.exit_code, "warned" in queue.out(job)) == (10, True)
    assert row.ends_ts is not None


def test_a_job_that_ignores_everything_is_killed_at_its_limit(queue: Queue) -> None:
    job = queue.submit(STUBBORN, limit_s=2, warn_s=1)
    queue.ready(job)
    row = queue.wait(job, JobState.ENDED)
    assert (row.slurm_state, row.exit_code) == ("TIMEOUT", 128 + signal.SIGKILL)


def test_what_a_job_leaves_behind_ends_with_it(queue: Queue) -> None:
    leave_child = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
    )
    job = queue.submit(leave_child)
    queue.wait(job, JobState.ENDED)
    child = int(queue.out(job))
    until(lambda: not Path(f"/proc/{child}").exists() or "Z" in _state(child))


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2]
    except FileNotFoundError:
        return "Z"


def test_a_cancelled_job_never_runs_even_when_cancelled_at_birth(queue: Queue) -> None:
    job = queue.submit("print('ran')")
    queue.scheduler.cancel(job)  # its runner has not set its handlers yet
    row = queue.wait(job, JobState.ENDED)
    assert row.slurm_state == "CANCELLED"
    assert queue.out(job) == ""


def test_a_job_whose_submitter_died_before_it_was_born_is_over_once_cancelled(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else `stop` would wait a minute for a job that never starts."""
    monkeypatch.setattr(queue.scheduler, "_start_runner", lambda *_: None)
    job = queue.submit("print('never')")
    assert queue.row(job).state is JobState.PENDING
    queue.scheduler.cancel(job)
    assert (queue.row(job).state, queue.row(job).slurm_state) == (JobState.ENDED, "CANCELLED")


def test_cancel_needs_the_token_as_well_as_the_id(queue: Queue) -> None:
    job = queue.submit(POLITE)
    queue.ready(job)
    queue.scheduler.cancel(JobRef(job.job_id, "0" * 12))
    time.sleep(0.3)
    assert queue.row(job).state is JobState.RUNNING


def test_another_scheduler_on_the_same_folder_finds_the_jobs(queue: Queue) -> None:
    job = queue.submit(POLITE)
    queue.ready(job)
    queue.scheduler = LocalScheduler(queue.folder / "queue", 2, SystemClock())
    assert queue.row(job).state is JobState.RUNNING
    queue.scheduler.signal(job)
    assert queue.wait(job, JobState.ENDED).exit_code == 10


def test_a_job_that_cannot_be_looked_at_is_unknown_and_not_gone(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, real = queue.submit(POLITE), os.open
    queue.ready(job)

    def exhausted(path: Path, *rest: int) -> int:
        if str(path).endswith("job.json"):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return real(path, *rest)

    with monkeypatch.context() as trouble:
        trouble.setattr(os, "open", exhausted)
        assert isinstance(queue.scheduler.snapshot(), UnknownQueue)
    assert queue.row(job).state is JobState.RUNNING


def test_a_job_whose_keeper_was_killed_still_runs_and_can_be_cancelled(queue: Queue) -> None:
    job = queue.submit(STUBBORN)
    queue.ready(job)
    keeper = queue.files(job).process("process")
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGKILL)
    until(lambda: not is_alive(keeper))
    assert queue.row(job).state is JobState.RUNNING
    rest = [queue.submit(POLITE) for _ in range(2)]
    until(lambda: any("ready" in queue.out(job) for job in rest))
    time.sleep(0.3)
    states = [queue.row(job).state for job in rest]
    assert sorted(states) == [JobState.PENDING, JobState.RUNNING]  # it still holds its place
    queue.scheduler.cancel(job)
    row = queue.wait(job, JobState.ENDED)
    assert row.slurm_state == "LOST"


def test_a_job_behind_another_that_waits_can_be_cancelled(queue: Queue) -> None:
    busy = [queue.submit(POLITE) for _ in range(2)]
    for job in busy:
        queue.ready(job)
    first, second = queue.submit(POLITE), queue.submit(POLITE)
    until(lambda: queue.files(second).process("process") is not None)
    until(lambda: is_locked(turn_lock(queue.folder / "queue")))
    queue.scheduler.cancel(second)
    assert queue.wait(second, JobState.ENDED).slurm_state == "CANCELLED"
    assert queue.row(first).state is JobState.PENDING
    keeper = queue.files(first).process("process")
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGTERM)  # as on a full disk, where cancel.json fails
    assert queue.wait(first, JobState.ENDED).slurm_state == "CANCELLED"


def is_locked(path: Path) -> bool:
    """Check twice: a job that only tries the lock holds it briefly."""
    for _ in range(2):
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.02)
            else:
                return False
    return True


def test_a_place_that_cannot_be_locked_fails_the_job(tmp_path: Path, monkeypatch) -> None:
    """On a file system without locks a job fails instead of waiting for ever."""

    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none)
    files = new_job(tmp_path)
    spec = {"cap": 1, "submitted_ts": 0.0}
    LocalJob(files, spec, SystemClock(), threading.Event()).run()
    end = files.read_record("end")
    assert end is not None
    assert (end["word"], end["exit_code"]) == ("FAILED", 127)


def test_a_job_of_another_release_is_started_by_the_name_that_all_releases_have(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a new release is tried, the controller starts jobs with the code of the old one."""
    release = queue.folder / "release"
    module = release / "Daddy/cluster/orchestrator/local_job.py"
    module.parent.mkdir(parents=True)
    for folder in list(module.parents)[:3]:
        (folder / "__init__.py").touch()
    module.write_text("import pathlib, sys; (pathlib.Path(sys.argv[1]) / 'started').touch()")
    monkeypatch.chdir(queue.folder)  # as the daemon: no Daddy package is here
    job = queue.submit("", environment={"PYTHONPATH": str(release)})
    until((queue.files(job).folder / "started").exists)


KEEPER = """
import os, signal, subprocess, sys
from Daddy.cluster.orchestrator import local_job

class Lock:
    \"\"\"The library's own lock; the signal comes as soon as it has been taken.\"\"\"
    told = False
    def __init__(self, real): self.real = real
    def acquire(self, *how):
        taken = self.real.acquire(*how)
        if not Lock.told:
            Lock.told = True
            os.kill(os.getpid(), signal.SIGTERM)
        return taken
    def release(self): self.real.release()
    def __enter__(self): self.real.acquire()
    def __exit__(self, *_): self.real.release()

spawn = local_job.spawn_child
def spawned(*argv, **options):
    child = spawn(*argv, **options)
    child._popen._waitpid_lock = Lock(child._popen._waitpid_lock)
    return child
local_job.spawn_child = spawned
local_job.main(sys.argv[1:])
"""


def test_a_cancel_in_the_midst_of_a_look_at_the_program_ends_it(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler that raised in a lock's code kept the lock, and the job never ended."""
    monkeypatch.setattr(queue.scheduler, "_start_runner", lambda *_: None)
    job = queue.submit(POLITE)
    argv = [sys.executable, "-c", KEEPER, str(queue.files(job).folder)]
    keeper = subprocess.Popen(argv)
    try:
        assert queue.wait(job, JobState.ENDED).slurm_state == "CANCELLED"
        assert keeper.wait(PATIENCE_S) == 0
    finally:
        keeper.kill()
        keeper.wait()


def test_jobs_do_not_hear_the_terminal(queue: Queue) -> None:
    job = queue.submit(POLITE)
    queue.ready(job)
    keeper = queue.files(job).process("process")
    assert keeper is not None
    for number in (signal.SIGINT, signal.SIGHUP):
        os.kill(keeper.pid, number)
    time.sleep(0.3)
    assert queue.row(job).state is JobState.RUNNING


def test_a_job_whose_start_cannot_be_written_down_leaves_no_process_behind(queue: Queue) -> None:
    job = queue.submit("import os, time; print(os.getpid(), flush=True); time.sleep(60)")
    (queue.files(job).folder / "start.json").mkdir()  # nothing can be written there
    assert queue.wait(job, JobState.ENDED).slurm_state == "FAILED"
    time.sleep(0.3)
    pid = queue.out(job)
    assert not pid or _state(int(pid)) == "Z"


def test_a_program_that_does_not_exist_is_a_failed_job(queue: Queue) -> None:
    spec = JobSpec(
        token=new_token(), number=1, run_id="x", argv=("/nowhere/program",), environment={},
        work_dir=queue.folder, logs=queue.logs, script=queue.folder / "s", time_limit_s=9, warn_s=1,
    )  # fmt: skip
    answer = queue.scheduler.submit(spec)
    assert isinstance(answer, Submitted)
    row = queue.wait(JobRef(answer.job_id, spec.token), JobState.ENDED)
    assert (row.slurm_state, row.exit_code) == ("FAILED", 127)
