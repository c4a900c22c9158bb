"""Tests the Slurm scheduler on a real Slurm with accounting."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.action_types import Amend
from Daddy.cluster.orchestrator.controller_types import JobState, QueueJob, Snapshot, WaitReason
from Daddy.cluster.orchestrator.scheduler_interface import JobRef, JobSpec, Refused, Submitted
from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler
from Daddy.core.clock import SystemClock
from Daddy.core.name_validation import new_token
from tests.components import absent
from tests.patience import PATIENCE_S, until
from tests.real.conftest import CHECKOUT, Cluster

RUN = "adapter-000000"
REQUEST = {"partition": "gpu-linuxlab", "gres": "gpu:1", "account": "engr-class-any"}


class Adapter:
    """A scheduler on the test cluster with helpers for its jobs."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.jobs: list[JobRef] = []
        self.scheduler = self.another()

    def another(self, user_id: int | None = None, **poison: str) -> SlurmScheduler:
        return SlurmScheduler(
            RUN,
            SystemClock(),
            {**self.cluster.env, **poison},
            calls=self.folder / "calls",
            request=REQUEST,
            user_id=user_id,
        )

    def spec(self, argv: Sequence[str] = ("sleep", "120"), limit_s: int = 120) -> JobSpec:
        token = new_token()
        return JobSpec(
            token=token,
            number=1,
            run_id=RUN,
            argv=tuple(argv),
            environment={"DADDY_RELEASE": "r1"},
            work_dir=self.folder,
            logs=self.folder,
            script=self.folder / f"{token}.sbatch",
            time_limit_s=limit_s,
            warn_s=10,
            request=REQUEST,
        )

    def submit(self, *argv: str, limit_s: int = 120) -> JobRef:
        spec = self.spec(argv or ("sleep", "120"), limit_s)
        answer = self.scheduler.submit(spec)
        assert isinstance(answer, Submitted), answer
        self.jobs.append(JobRef(answer.job_id, spec.token))
        return self.jobs[-1]

    def look(self) -> Snapshot:
        seen = self.scheduler.snapshot()
        assert isinstance(seen, Snapshot), seen
        return seen

    def row(self, job: JobRef) -> QueueJob:
        return next(row for row in self.look().jobs if row.token == job.token)

    def amend(self, job: JobRef, **change: object) -> None:
        self.scheduler.amend(job, Amend(job.token, job.job_id, "a test", **change))

    def fact(self, job: JobRef, name: str) -> str:
        text = self.cluster.out("scontrol", "--oneliner", "show", "job", str(job.job_id))
        match = re.search(rf"\b{name}=(\S*)", text)
        assert match, text
        return match[1]


@pytest.fixture
def adapter(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Adapter]:
    monkeypatch.setenv("PATH", cluster.env["PATH"])
    made = Adapter(cluster, tmp_path)
    try:
        yield made
    finally:
        for job in made.jobs:
            made.scheduler.cancel(job)
        ids = {job.job_id for job in made.jobs}
        assert until(lambda: not ids & running(made.look()))


def running(seen: Snapshot) -> set[int]:
    return {job.job_id for job in seen.jobs if job.state is not JobState.ENDED}


def waiting(adapter: Adapter) -> tuple[JobRef, QueueJob]:
    """Submit five jobs; return the waiting one once it has a reason."""
    jobs = [adapter.submit() for _ in range(5)]
    assert until(
        lambda: len([1 for job in adapter.look().jobs if job.slurm_state == "RUNNING"]) == 4
    )
    assert until(lambda: adapter.row(jobs[4]).slurm_reason == "QOSMaxJobsPerUserLimit"), (
        adapter.look()
    )
    return jobs[4], adapter.row(jobs[4])


def test_the_cap_is_read_and_seen_and_a_waiting_job_is_changed_without_losing_its_age(
    adapter: Adapter,
) -> None:
    site, why = adapter.scheduler.read_limits()
    assert (site.max_running, site.max_submitted, site.enforced, site.blocks_others) == (
        4, None, True, False,
    )  # fmt: skip
    assert why == "MaxJobsPU of QOS students 4"
    job, row = waiting(adapter)
    assert (row.wait_reason, row.restarts, row.slurm_state) == (WaitReason.CAP, 0, "PENDING")

    assert until(lambda: re.match(r"\d{4}-", adapter.fact(job, "AccrueTime")))  # first "Unknown"
    age = adapter.fact(job, "AccrueTime")
    adapter.amend(job, exclude=("n1", "n2"), limit_s=60)
    assert adapter.fact(job, "ExcNodeList") == "n1,n2"
    assert adapter.fact(job, "TimeLimit") == "00:01:00"
    adapter.amend(job, exclude=())
    assert adapter.fact(job, "ExcNodeList") == "(null)"
    assert adapter.fact(job, "AccrueTime") == age

    adapter.amend(job, hold=True)
    held = adapter.row(job)
    assert (held.slurm_reason, held.wait_reason) == (
        "JobHeldUser",
        WaitReason.TURN,
    )  # not an administrator's
    adapter.scheduler.cancel(adapter.jobs[0])
    time.sleep(2)
    assert adapter.row(job).state is JobState.PENDING
    adapter.amend(job, hold=False)
    assert until(lambda: adapter.row(job).state is JobState.RUNNING)


def test_a_job_that_the_site_renamed_is_known_by_its_comment_and_obeys(adapter: Adapter) -> None:
    job = adapter.submit(limit_s=300)
    adapter.cluster.out("scontrol", "update", f"JobId={job.job_id}", "JobName=called by the site")
    assert until(lambda: adapter.row(job).state is JobState.RUNNING)
    adapter.amend(job, limit_s=120)
    assert adapter.fact(job, "TimeLimit") == "00:02:00"
    adapter.scheduler.cancel(JobRef(job.job_id, "f" * 12))  # the right id, a wrong token
    assert adapter.row(job).state is JobState.RUNNING
    adapter.scheduler.cancel(job)
    assert until(lambda: adapter.row(job).state is JobState.ENDED)


def test_jobs_are_listed_where_the_user_database_lacks_the_user(
    adapter: Adapter, tmp_path: Path
) -> None:
    """`squeue --me` lists nothing there and exits with 0, so every job would count as gone."""
    if os.geteuid() != 0:
        absent("root, to run squeue as a uid without a user")
    job, real = adapter.submit(), shutil.which("squeue", path=adapter.cluster.env["PATH"])
    squeue, nobody = tmp_path / "squeue", "setpriv --reuid 54321 --clear-groups"
    me = f'case " $* " in *" --me "*) exec {nobody} {real} "$@";; esac'
    squeue.write_text(f'#!/bin/sh\n{me}\nexec {real} "$@"\n')
    squeue.chmod(0o755)
    scheduler = adapter.another(PATH=f"{tmp_path}:{adapter.cluster.env['PATH']}")
    assert "Invalid user:" in scheduler.commands.run(["squeue", "--me"], PATIENCE_S).stderr
    seen = scheduler.snapshot()
    assert isinstance(seen, Snapshot), seen
    assert job in [JobRef(row.job_id, row.token) for row in seen.jobs]


def test_a_submit_limit_is_read_and_met(adapter: Adapter) -> None:
    change = ("sacctmgr", "-i", "modify", "qos", "students", "set")
    try:
        adapter.cluster.out(*change, "MaxSubmitJobsPerUser=2")
        assert adapter.scheduler.read_limits()[0].max_submitted == 2
        for _ in range(2):
            adapter.submit()
        refused = adapter.scheduler.submit(adapter.spec())
        assert isinstance(refused, Refused), refused
        assert refused.too_many_waiting
        assert not refused.permanent
    finally:
        adapter.cluster.out(*change, "MaxSubmitJobsPerUser=-1")


def test_who_cancelled_a_job_is_told_by_accounting_and_not_where_it_was_oneself(
    adapter: Adapter,
) -> None:
    runs, waits = adapter.submit(), adapter.submit("true", limit_s=60)
    assert until(lambda: adapter.row(runs).state is JobState.RUNNING)
    adapter.cluster.out("scancel", str(runs.job_id))
    assert until(lambda: adapter.row(runs).state is JobState.ENDED)
    assert until(lambda: adapter.row(waits).state is JobState.ENDED)
    student = adapter.another(user_id=os.getuid() + 1)  # for whom our user is an administrator
    assert until(lambda: len(student.read_ended_jobs([runs, waits])) == 2)  # sacct lags the listing
    told = {job.job_id: job for job in student.read_ended_jobs([runs, waits])}
    assert (told[runs.job_id].canceller, told[runs.job_id].slurm_state) == (
        os.getuid(),
        "CANCELLED",
    )
    assert (told[waits.job_id].canceller, told[waits.job_id].exit_code) == (None, 0)
    assert [job.canceller for job in adapter.scheduler.read_ended_jobs([runs])] == [None]
    assert student.read_ended_jobs([JobRef(runs.job_id, "f" * 12)]) == ()


def test_a_job_that_ends_before_a_maintenance_starts_at_once_when_made_shorter(
    adapter: Adapter,
) -> None:
    name = "adapter-maintenance"
    begins = int(time.time()) + 1200
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(begins))
    adapter.cluster.out(
        "scontrol", "create", "reservation", f"reservationname={name}", f"starttime={stamp}",
        "duration=30", "flags=maint,ignore_jobs", "nodes=ALL", f"user={adapter.cluster.user}",
    )  # fmt: skip
    try:
        job = adapter.submit(limit_s=7200)
        assert until(lambda: adapter.row(job).wait_reason is WaitReason.RESERVATION), adapter.row(
            job
        )
        assert adapter.look().maintenance_ts == begins
        adapter.amend(job, limit_s=600)
        assert until(lambda: adapter.row(job).state is JobState.RUNNING)
    finally:
        adapter.cluster.run("scontrol", "delete", f"reservationname={name}")


def test_a_poisoned_shell_bends_neither_the_job_nor_what_is_seen_of_it(adapter: Adapter) -> None:
    poison = {
        "SQUEUE_STATES": "R", "SQUEUE_FORMAT": "%i", "SBATCH_TIMELIMIT": "1",
        "SBATCH_QOS": "normal", "SBATCH_JOB_NAME": "mine", "SBATCH_REQUEUE": "1",
        "SBATCH_EXPORT": "NONE",
        "SLURM_TIME_FORMAT": "relative", "SLURM_JOB_ID": "4711", "SLURM_MEM_PER_NODE": "1",
        "DADDY_SLOT": "3", "LEFT_OVER": "yes", "SCONTROL_ALL": "1", "SACCT_FORMAT": "jobid",
    }  # fmt: skip
    adapter.scheduler = adapter.another(**poison)
    job = adapter.submit("env")
    assert until(lambda: adapter.row(job).state is JobState.ENDED)
    assert adapter.fact(job, "Requeue") == "0"
    assert until(lambda: adapter.scheduler.read_ended_jobs([job]))  # sacct lags the listing
    (ended,) = adapter.scheduler.read_ended_jobs([job])
    assert ended.exit_code == 0
    lines = (adapter.folder / f"slurm-{job.job_id}.out").read_text().splitlines()
    seen = dict(line.split("=", 1) for line in lines if "=" in line)
    assert not {"DADDY_SLOT", "LEFT_OVER", "SQUEUE_STATES", "SLURM_MEM_PER_NODE"} & set(seen)
    assert seen["SLURM_JOB_ID"] == str(job.job_id) == seen["DADDY_JOB_ID"]
    assert float(seen["DADDY_JOB_END_TIME"]) > time.time() - 60
    assert {"PATH", "HOME", "SLURM_CONF"} <= set(seen)


PARENT = """
import os, pathlib, sys
from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler
from Daddy.core.clock import SystemClock
from Daddy.cluster.orchestrator.scheduler_interface import JobSpec
folder = pathlib.Path(sys.argv[1])
spec = JobSpec(token=sys.argv[2], number=1, run_id="adapter-000000", argv=("true",), environment={},
               work_dir=folder, logs=folder, script=folder / "job.sbatch", time_limit_s=60,
               warn_s=5)
SlurmScheduler("adapter-000000", SystemClock()).submit(spec)
"""


def sbatches(folder: Path) -> list[int]:
    """Return the running sbatch processes of this folder."""
    return [
        int(entry.parent.name)
        for entry in Path("/proc").glob("[0-9]*/cmdline")
        if said(entry.read_bytes, b"").find(f"{folder}/job.sbatch".encode()) >= 0
    ]


def said(read: Callable[[], bytes], otherwise: bytes) -> bytes:
    try:
        return read()
    except OSError:
        return otherwise


def test_an_sbatch_at_a_frozen_slurmctld_dies_with_its_controller(adapter: Adapter) -> None:
    """A job that slurmctld makes of an interrupted sbatch has our token."""
    token = new_token()
    env = {**adapter.cluster.env, "PYTHONPATH": str(CHECKOUT)}
    argv = [sys.executable, "-c", PARENT, str(adapter.folder), token]
    with adapter.cluster.frozen("slurmctld"):
        parent = subprocess.Popen(argv, env=env)
        try:
            assert until(lambda: sbatches(adapter.folder), 20)
            parent.send_signal(signal.SIGKILL)
            parent.wait(PATIENCE_S)
            assert until(lambda: not sbatches(adapter.folder), 2)
        finally:
            parent.kill()
            parent.wait(PATIENCE_S)
    assert until(lambda: isinstance(adapter.scheduler.snapshot(), Snapshot), 30)
    adapter.jobs += [
        JobRef(job.job_id, job.token) for job in adapter.look().jobs if job.token == token
    ]
    assert len([job for job in adapter.jobs if job.token == token]) <= 1
