"""The controller on a real Slurm: hand-over, adoption, lost answers, silence, poisoned shells."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.scheduler import JobRef, JobSpec, Submitted
from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler
from Daddy.core.clock import SystemClock
from Daddy.core.names import new_token
from Daddy.core.paths import RunPaths
from tests.cluster.conftest import Person, small_config
from tests.real.conftest import CHECKOUT, Sandbox, until

SLURM = {"time_limit": "0:01:00", "max_running": 4, "partition": "gpu-linuxlab"}


@pytest.fixture(scope="module")
def small_checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    leave = shutil.ignore_patterns("__pycache__")
    shutil.copytree(CHECKOUT / "Daddy", folder / "Daddy", ignore=leave)
    learner = CHECKOUT / "tests" / "cluster" / "small_learner.py"
    shutil.copy(learner, folder / "Daddy" / "train_slim.py")
    return folder


@pytest.fixture
def student(sandbox: Sandbox, small_checkout: Path, tmp_path: Path) -> Iterator[Person]:
    """A person on the login node with a run of four slots; its jobs are gone afterwards."""
    run = RunPaths(tmp_path / "runs" / "tiny")
    settings = small_config(
        run.root,
        training={"max_runtime_seconds": 300},
        slurm=SLURM,
        controller={"executor": "auto", "poll_seconds": 1},
    )
    config = tmp_path / "run.json"
    config.write_text(json.dumps(settings))
    env = {key: value for key, value in sandbox.env.items() if key != "DADDY_SITE"}
    env["PYTHONPATH"] = str(small_checkout)
    someone = Person(small_checkout, config, run, env)
    try:
        yield someone
    finally:
        if run.intent.exists():
            assert someone.says("stop", "--now", timeout_s=120).returncode == 0


def squeue(sandbox: Sandbox, *options: str) -> list[str]:
    return sandbox.out("squeue", "--noheader", "--format=%i %T %k", *options).splitlines()


def ours(sandbox: Sandbox) -> list[str]:
    return [line for line in squeue(sandbox) if "daddy/tiny-" in line]


def test_four_slots_are_filled_adopted_handed_over_and_drained(
    sandbox: Sandbox, student: Person
) -> None:
    """One run through its life; squeue and our own status must agree at every station."""
    said = student.says("start")
    assert said.returncode == 0, said.stderr
    assert "4 slots on slurm" in said.stdout
    assert until(lambda: student.training == 4 and len(student.sees()["waiting"]) == 4, 40)
    seen = student.sees()
    assert len(ours(sandbox)) == 8
    running = {line.split()[0] for line in ours(sandbox) if "RUNNING" in line}
    assert running == {str(slot["job_id"]) for slot in seen["slots"]}
    tokens = [line.rsplit("/", 1)[1] for line in ours(sandbox)]
    assert len(set(tokens)) == 8

    os.kill(student.controller, signal.SIGKILL)
    assert student.says("start").returncode == 0
    time.sleep(4)  # several passes in which a doubled job would show
    assert {slot["job_id"] for slot in student.sees()["slots"]} == {
        slot["job_id"] for slot in seen["slots"]
    }
    assert len(ours(sandbox)) == 8

    assert until(lambda: len(student.fleet.handovers()) >= 4, 90), "the wall time is a minute"
    fleet = student.fleet
    assert {one.exit_code for one in fleet.attempts.values() if one.goodbye} == {10}
    gaps = sorted(one.gap_s for one in fleet.handovers())
    assert gaps[len(gaps) // 2] < 6.0, gaps
    assert (student.run.logs / f"slurm-{next(iter(running))}.out").exists()

    stopped = student.says("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert ours(sandbox) == []
    assert student.sees()["said"] == "the run is stopped, as asked"


def test_a_frozen_slurmctld_changes_nothing_and_status_says_what_was_last_known(
    sandbox: Sandbox, student: Person
) -> None:
    assert student.says("start").returncode == 0
    assert until(lambda: student.training == 4, 40)
    before = student.sees()
    pid = slurmctld(sandbox)
    os.kill(pid, signal.SIGSTOP)
    try:
        os.kill(student.controller, signal.SIGKILL)
        begun = time.monotonic()
        said = student.says("status", "--json")
        assert time.monotonic() - begun < 8.0  # squeue alone would take twenty seconds
        frozen = json.loads(said.stdout)
        assert (said.returncode, frozen["verdict"]) == (22, "unknown")
        assert [one["job_id"] for one in frozen["slots"]] == [
            one["job_id"] for one in before["slots"]
        ]
    finally:
        os.kill(pid, signal.SIGCONT)
    assert until(lambda: student.sees()["verdict"] != "unknown", 30)
    assert len(student.ledger("intent")) <= 8


def slurmctld(sandbox: Sandbox) -> int:
    """The pid of this sandbox's slurmctld, by its configuration file."""
    conf = str(sandbox.facts["slurm_conf"])
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"slurmctld") and conf.encode() in words:
            return int(process.parent.name)
    for process in Path("/proc").glob("[0-9]*/environ"):
        try:
            command = (process.parent / "cmdline").read_bytes()
            if b"slurmctld" in command and f"SLURM_CONF={conf}".encode() in process.read_bytes():
                return int(process.parent.name)
        except OSError:
            continue
    pytest.fail("the sandbox runs no slurmctld")


def test_an_answer_of_sbatch_that_is_lost_makes_one_job_and_not_two(
    sandbox: Sandbox, student: Person
) -> None:
    """sbatch fails with a time-out, the job exists all the same, and its token brings it home."""
    env = dict(student.env)
    shim = student.config.parent / "bin"
    shim.mkdir()
    real = shutil.which("sbatch", path=env["PATH"])
    lose_first = shim / "sbatch"
    lose_first.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *test-only*) exec {real} "$@";; esac\n'
        f'if [ ! -e {shim}/lost ]; then touch {shim}/lost; {real} "$@" >/dev/null\n'
        "echo 'sbatch: error: Batch job submission failed: Socket timed out' >&2; exit 1; fi\n"
        f'exec {real} "$@"\n'
    )
    lose_first.chmod(0o755)
    student.env["PATH"] = f"{shim}:{env['PATH']}"
    assert student.says("start").returncode == 0
    assert until(lambda: student.training == 4 and len(student.sees()["waiting"]) == 4, 40)
    assert len(ours(sandbox)) == 8
    (lost,) = student.ledger("unanswered")
    adopted = [one for one in student.ledger("submitted") if one["token"] == lost["token"]]
    assert [one.get("adopted") for one in adopted] == [True]


def test_variables_of_the_person_do_not_bend_what_is_seen(sandbox: Sandbox, tmp_path: Path) -> None:
    """SQUEUE_STATES=R hides waiting jobs with exit code 0; SBATCH_* would rename ours."""
    poisoned = {**sandbox.env, "SQUEUE_STATES": "R", "SBATCH_JOB_NAME": "mine", "SQUEUE_USERS": "x"}
    path = os.environ["PATH"]
    os.environ["PATH"] = poisoned["PATH"]
    try:
        scheduler = SlurmScheduler("tiny-000000", SystemClock(), poisoned)
        jobs = [submit(scheduler, tmp_path) for _ in range(5)]
        assert until(lambda: len(rows(scheduler)) == 5, 20)
        words = sorted(row.word for row in rows(scheduler))
        assert "PENDING" in words
        scheduler.cancel([JobRef(jobs[0].job_id, "f" * 12)])  # a wrong token touches nothing
        time.sleep(1)
        assert all(row.word != "CANCELLED" for row in rows(scheduler))
        scheduler.cancel(jobs)
        assert until(lambda: all("CANCELLED" in row.word for row in rows(scheduler)), 30)
    finally:
        os.environ["PATH"] = path


def submit(scheduler: SlurmScheduler, folder: Path) -> JobRef:
    token = new_token()
    spec = JobSpec(
        token=token,
        number=1,
        run_id="tiny-000000",
        argv=("sleep", "120"),
        environment={},
        work_dir=folder,
        logs=folder,
        script=folder / f"{token}.sbatch",
        time_limit_s=120,
        warn_s=10,
        request={"partition": "gpu-linuxlab", "gres": "gpu:1"},
    )
    answer = scheduler.submit(spec)
    assert isinstance(answer, Submitted), answer
    return JobRef(answer.job_id, token)


def rows(scheduler: SlurmScheduler):
    return scheduler.snapshot().jobs


def test_a_partition_that_does_not_exist_is_refused_at_start(student: Person) -> None:
    said = student.says("start", "--partition", "nope")
    assert said.returncode == 4
    assert "invalid partition specified: nope" in said.stderr
    assert not student.run.intent.exists()


def test_the_dry_run_names_the_game_and_the_script_passes_sbatch(
    sandbox: Sandbox, student: Person, tmp_path: Path
) -> None:
    said = student.says("start", "--dry-run")
    assert said.returncode == 0
    script = tmp_path / "dry.sbatch"
    script.write_text(said.stdout[said.stdout.index("#!/bin/bash") :])
    student.run.logs.mkdir(parents=True)
    done = subprocess.run(
        ["sbatch", "--test-only", str(script)],
        env=sandbox.env,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sys.executable in said.stdout
