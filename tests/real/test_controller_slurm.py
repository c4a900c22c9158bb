"""Tests the controller on a real Slurm: hand-over, adoption, lost answers, odd environments."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.scheduler_interface import JobRef, JobSpec, Submitted
from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler
from Daddy.core.atomic_files import read_json
from Daddy.core.clock import SystemClock
from Daddy.core.name_validation import new_token
from tests.patience import PATIENCE_S, until
from tests.real.conftest import Cluster, Student


def squeue(cluster: Cluster, *options: str) -> list[str]:
    return cluster.out("squeue", "--noheader", "--format=%i %T %k", *options).splitlines()


def ours(cluster: Cluster) -> list[str]:
    return [line for line in squeue(cluster) if "daddy/tiny-" in line]


def test_four_slots_are_filled_adopted_handed_over_and_drained(
    cluster: Cluster, student: Student
) -> None:
    """Run a fleet from start to stop; squeue and ``status`` must agree at each stage."""
    student.wants(max_running=4, time_limit="0:01:00")
    said = student.says("start")
    assert said.returncode == 0, said.stderr
    assert "4 slots on slurm" in said.stdout
    assert until(lambda: student.training == 4 and len(student.sees()["waiting"]) == 4, 40)
    seen = student.sees()
    assert len(ours(cluster)) == 8
    running = {line.split()[0] for line in ours(cluster) if "RUNNING" in line}
    assert running == {str(slot["job_id"]) for slot in seen["slots"]}
    tokens = [line.rsplit("/", 1)[1] for line in ours(cluster)]
    assert len(set(tokens)) == 8
    (learnt,) = student.ledger("learnt")  # the cap was read from Slurm
    assert learnt["site"] == {"max_running": 4, "enforced": True}

    os.kill(student.controller, signal.SIGKILL)
    assert student.says("start").returncode == 0
    time.sleep(4)  # several passes, for a duplicate job to appear
    same = {slot["job_id"] for slot in seen["slots"]}
    assert until(lambda: {slot["job_id"] for slot in student.sees()["slots"]} == same, 20)
    assert len(ours(cluster)) == 8

    assert until(lambda: len(student.fleet.handovers()) >= 4, 90), "the wall time is a minute"
    fleet = student.fleet
    assert {
        attempt.facts_of("goodbye")["exit_code"]
        for attempt in fleet.attempts.values()
        if attempt.time_of("goodbye")
    } == {10}
    gaps = sorted(handover.gap_s for handover in fleet.handovers())
    assert gaps[len(gaps) // 2] < 20.0, gaps  # without a waiting successor: queue and boot
    assert (student.run.logs / f"slurm-{next(iter(running))}.out").exists()

    stopped = student.says("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert ours(cluster) == []
    assert student.sees()["said"].startswith("the run was stopped at ")


def test_a_new_run_name_keeps_the_fleet(cluster: Cluster, student: Student) -> None:
    """1. Jobs train. 2. The name changes. 3. A job is submitted. 4. The controller is replaced."""
    student.wants(600, max_running=2, time_limit="0:10:00")
    assert student.says("start").returncode == 0
    assert until(lambda: student.training == 2 and len(ours(cluster)) == 4, 40)
    before = ours(cluster)
    settings = json.loads(student.config.read_text())
    student.config.write_text(json.dumps({**settings, "run_name": "other"}))
    said = student.says("start")
    assert said.returncode == 0, said.stderr
    waiting = next(line.split()[0] for line in before if "PENDING" in line)
    cluster.out("scancel", waiting)
    assert until(lambda: len(student.ledger("submitted")) == 5, 40)
    os.kill(student.controller, signal.SIGKILL)
    passed_ts = student.sees()["ts"]
    assert student.says("start").returncode == 0
    for _ in range(2):
        assert until(lambda: student.sees()["ts"] > passed_ts, 20)  # noqa: B023 - called here
        passed_ts = student.sees()["ts"]
    assert student.ledger("absent") == []
    kept = {line for line in before if line.split()[0] != waiting}
    assert kept < set(ours(cluster))
    assert len(ours(cluster)) == len(squeue(cluster)) == 4


def test_an_empty_listing_at_exit_code_zero_ends_no_learner_that_beats(
    cluster: Cluster, student: Student
) -> None:
    """squeue lists nothing for longer than two listings take to prove a job gone."""
    student.wants(600, max_running=2, time_limit="0:10:00")
    shim, real = student.config.parent / "bin", shutil.which("squeue", path=student.env["PATH"])
    shim.mkdir()
    (shim / "squeue").write_text(f'#!/bin/sh\n[ -e {shim}/blind ] || exec {real} "$@"\n')
    (shim / "squeue").chmod(0o755)
    student.env["PATH"] = f"{shim}:{student.env['PATH']}"
    assert student.says("start").returncode == 0
    assert until(lambda: student.training == 2 and len(ours(cluster)) == 4, 40)
    before = sorted(ours(cluster))
    (shim / "blind").touch()
    assert until(lambda: student.ledger("absent"), 60)
    proven_ts = student.ledger("absent")[0]["ts"] + 1.5 * ControllerPolicy().absence_gap_s
    assert until(lambda: read_json(student.run.status)["ts"] > proven_ts, 120)
    assert student.sees()["said"].startswith(
        "the queue cannot be read (squeue lists no job of this run, but heartbeats come from job"
    )
    (shim / "blind").unlink()
    assert until(lambda: student.sees()["verdict"] != "unknown", 60)
    assert student.training == 2
    assert sorted(ours(cluster)) == before
    assert student.ledger("ended") == []


def test_a_frozen_slurmctld_changes_nothing_and_status_says_what_was_last_known(
    cluster: Cluster, student: Student
) -> None:
    student.wants(max_running=4)
    assert student.says("start").returncode == 0
    assert until(lambda: student.training == 4, 40)
    before = student.sees()
    with cluster.frozen("slurmctld"):
        os.kill(student.controller, signal.SIGKILL)
        assert until(lambda: student.sees()["verdict"] == "unknown", 20)  # a dead one's last word
        frozen = student.sees()
        assert frozen["exit_code"] == 22
        assert [slot["job_id"] for slot in frozen["slots"]] == [
            slot["job_id"] for slot in before["slots"]
        ]
    assert until(lambda: student.sees()["verdict"] != "unknown", 30)
    assert len(student.ledger("intent")) <= 8


def test_where_waiting_jobs_are_counted_successors_come_late_and_without_a_storm(
    cluster: Cluster, student: Student
) -> None:
    """MaxSubmit = 4: the slots are filled, no job waits, and none is submitted in vain."""
    change = ("sacctmgr", "-i", "modify", "qos", "students", "set")
    student.wants(max_running=4)
    try:
        cluster.out(*change, "MaxSubmitJobsPerUser=4")
        assert student.says("start").returncode == 0
        assert until(lambda: student.training == 4, 40)
        time.sleep(4)
        assert len(ours(cluster)) == 4
        first = student.sees()["slots"][0]["job_id"]
        cluster.out("scancel", str(first))
        assert until(lambda: len(student.ledger("intent")) == 5, 20)
        assert until(lambda: student.training == 4, 40)
        assert len(student.ledger("intent")) <= 6
    finally:
        cluster.out(*change, "MaxSubmitJobsPerUser=-1")


def test_an_answer_of_sbatch_that_is_lost_makes_one_job_and_not_two(
    cluster: Cluster, student: Student
) -> None:
    """sbatch times out, its job exists, and the controller adopts it by its token."""
    student.wants(max_running=4)
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
    assert len(ours(cluster)) == 8
    (lost,) = student.ledger("unanswered")
    adopted = [entry for entry in student.ledger("submitted") if entry["token"] == lost["token"]]
    assert [entry.get("adopted") for entry in adopted] == [True]


def test_variables_of_the_person_do_not_bend_what_is_seen(cluster: Cluster, tmp_path: Path) -> None:
    """SQUEUE_STATES=R would hide waiting jobs with exit code 0, SBATCH_* rename our jobs."""
    poisoned = {**cluster.env, "SQUEUE_STATES": "R", "SBATCH_JOB_NAME": "mine", "SQUEUE_USERS": "x"}
    path = os.environ["PATH"]
    os.environ["PATH"] = poisoned["PATH"]
    try:
        scheduler = SlurmScheduler("tiny-000000", SystemClock(), poisoned)
        jobs = [submit(scheduler, tmp_path) for _ in range(5)]
        assert until(lambda: len(rows(scheduler)) == 5, 20)
        words = sorted(row.slurm_state for row in rows(scheduler))
        assert "PENDING" in words
        scheduler.cancel(JobRef(jobs[0].job_id, "f" * 12))  # a wrong token: no effect
        time.sleep(1)
        assert all(row.slurm_state != "CANCELLED" for row in rows(scheduler))
        for job in jobs:
            scheduler.cancel(job)
        assert until(lambda: all("CANCELLED" in row.slurm_state for row in rows(scheduler)), 30)
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


def test_a_partition_that_does_not_exist_is_refused_at_start(student: Student) -> None:
    said = student.says("start", "--partition", "nope")
    assert said.returncode == 4
    assert "there is no partition nope; Slurm lists: gpu-linuxlab" in said.stderr
    assert not student.run.intent.exists()


def test_the_dry_run_names_the_game_and_the_script_passes_sbatch(
    cluster: Cluster, student: Student, tmp_path: Path
) -> None:
    said = student.says("start", "--dry-run")
    assert said.returncode == 0
    script = tmp_path / "dry.sbatch"
    script.write_text(said.stdout[said.stdout.index("#!/bin/bash") :])
    student.run.logs.mkdir(parents=True)
    done = subprocess.run(
        ["sbatch", "--test-only", str(script)],
        env=cluster.env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sys.executable in said.stdout
