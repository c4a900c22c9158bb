"""Tests the controller on a real Slurm: hand-over, adoption, lost answers, odd environments.

The tests of ``fleet`` change one run of four slots, one after the other.
"""

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

from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.scheduler_interface import JobRef, JobSpec, Submitted
from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler
from Daddy.core.atomic_files import read_json
from Daddy.core.clock import SystemClock
from Daddy.core.name_validation import new_token
from tests.patience import PATIENCE_S
from tests.real.conftest import Cluster, Student, shortest_status_s, student_of, until

WAITED_S = 5.0
"""Longest ``status`` in seconds; squeue would wait for twenty. A bench measures the usual time."""


def squeue(cluster: Cluster, *options: str) -> list[str]:
    return cluster.out("squeue", "--noheader", "--format=%i %T %k", *options).splitlines()


def ours(cluster: Cluster) -> list[str]:
    return [line for line in squeue(cluster) if "daddy/tiny-" in line]


def test_four_slots_are_handed_over_and_drained(cluster: Cluster, student: Student) -> None:
    student.configure(max_running=4, time_limit="0:01:00")
    assert student.run_controller("start").returncode == 0
    assert until(lambda: len(student.event_summary.handovers()) >= 4, 130), (
        "the wall time is a minute"
    )
    fleet = student.event_summary
    assert {
        attempt.facts_of("goodbye")["exit_code"]
        for attempt in fleet.attempts.values()
        if attempt.time_of("goodbye")
    } == {10}
    gaps = sorted(handover.gap_s for handover in fleet.handovers())
    assert gaps[len(gaps) // 2] < 20.0, gaps  # without a waiting successor: queue and boot
    first = student.ledger("submitted")[0]["job_id"]
    assert (student.run.logs / f"slurm-{first}.out").exists()

    stopped = student.run_controller("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert ours(cluster) == []
    assert student.status()["said"].startswith("the run was stopped at ")


def test_where_waiting_jobs_are_counted_successors_come_late_and_without_a_storm(
    cluster: Cluster, student: Student
) -> None:
    """MaxSubmit = 4: the slots are filled, no job waits, and none is submitted in vain."""
    change = ("sacctmgr", "-i", "modify", "qos", "students", "set")
    student.configure(max_running=4)
    try:
        cluster.out(*change, "MaxSubmitJobsPerUser=4")
        assert student.run_controller("start").returncode == 0
        assert until(lambda: student.training == 4, 40)
        time.sleep(4)
        assert len(ours(cluster)) == 4
        first = student.status()["slots"][0]["job_id"]
        cluster.out("scancel", str(first))
        assert until(lambda: len(student.ledger("intent")) == 5, 20)
        assert until(lambda: student.training == 4, 40)
        assert len(student.ledger("intent")) <= 6
    finally:
        cluster.out(*change, "MaxSubmitJobsPerUser=-1")


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
    said = student.run_controller("start", "--partition", "nope")
    assert said.returncode == 4
    assert "there is no partition nope; Slurm lists: gpu-linuxlab" in said.stderr
    assert not student.run.intent.exists()


def test_the_dry_run_names_the_game_and_the_script_passes_sbatch(
    cluster: Cluster, student: Student, tmp_path: Path
) -> None:
    said = student.run_controller("start", "--dry-run")
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


LOSE_FIRST = """#!/bin/sh
case "$*" in *test-only*) exec {real} "$@";; esac
if [ ! -e {shim}/lost ]; then touch {shim}/lost; {real} "$@" >/dev/null
echo 'sbatch: error: Batch job submission failed: Socket timed out' >&2; exit 1; fi
exec {real} "$@"
"""
"""An sbatch that times out once, although its job exists."""
BLIND = """#!/bin/sh
[ -e {shim}/blind ] || exec {real} "$@"
"""
"""A squeue that lists nothing while the file ``blind`` exists."""


def put(shim: Path, name: str, script: str, path: str) -> None:
    real = shutil.which(name, path=path)
    (shim / name).write_text(script.format(shim=shim, real=real))
    (shim / name).chmod(0o755)


@pytest.fixture(scope="module")
def fleet(
    shared_cluster: Cluster, checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Student]:
    """Start a run of four slots that loses the answer to its first job; fill its slots."""
    with student_of(shared_cluster, checkout, tmp_path_factory.mktemp("fleet")) as student:
        student.configure(900, max_running=4, time_limit="0:15:00")
        shim, path = student.config.parent / "bin", student.env["PATH"]
        shim.mkdir()
        put(shim, "sbatch", LOSE_FIRST, path)
        put(shim, "squeue", BLIND, path)
        student.env["PATH"] = f"{shim}:{path}"
        said = student.run_controller("start")
        assert said.returncode == 0, said.stderr
        assert "4 slots on slurm" in said.stdout
        assert filled(student)
        yield student


def filled(student: Student) -> bool:
    """Wait until four jobs train and four wait."""

    def full() -> bool:
        seen = student.status()
        training = sum(1 for slot in seen["slots"] if slot["training"])
        return training == 4 and len(seen["waiting"]) == 4

    return until(full, 60)


def test_an_answer_of_sbatch_that_is_lost_makes_one_job_and_not_two(
    shared_cluster: Cluster, fleet: Student
) -> None:
    """sbatch times out, its job exists, and the controller adopts it by its token."""
    assert len(ours(shared_cluster)) == 8
    (lost,) = fleet.ledger("unanswered")
    adopted = [entry for entry in fleet.ledger("submitted") if entry["token"] == lost["token"]]
    assert [entry.get("adopted") for entry in adopted] == [True]


def test_four_slots_are_filled_and_adopted(shared_cluster: Cluster, fleet: Student) -> None:
    """squeue and ``status`` must agree, also after the controller was killed."""
    seen = fleet.status()
    running = {line.split()[0] for line in ours(shared_cluster) if "RUNNING" in line}
    assert running == {str(slot["job_id"]) for slot in seen["slots"]}
    tokens = [line.rsplit("/", 1)[1] for line in ours(shared_cluster)]
    assert len(set(tokens)) == 8
    (learnt,) = fleet.ledger("learnt")  # the cap was read from Slurm
    assert learnt["site"] == {"max_running": 4, "enforced": True}

    os.kill(fleet.controller, signal.SIGKILL)
    passed_ts = fleet.status()["ts"]
    assert fleet.run_controller("start").returncode == 0
    for _ in range(3):  # several passes, for a duplicate job to appear
        assert until(lambda: fleet.status()["ts"] > passed_ts, 20)  # noqa: B023 - called here
        passed_ts = fleet.status()["ts"]
    same = {slot["job_id"] for slot in seen["slots"]}
    assert until(lambda: {slot["job_id"] for slot in fleet.status()["slots"]} == same, 20)
    assert len(ours(shared_cluster)) == 8


def test_one_slot_is_restarted_stopped_and_filled_again(fleet: Student) -> None:
    before = fleet.status()["slots"][0]
    said = fleet.run_controller("restart", "--slot", "0")
    assert said.returncode == 0, said.stderr
    assert until(lambda: fleet.status()["slots"][0]["term"] > before["term"], 60)
    assert until(lambda: fleet.training == 4, 60)
    said = fleet.run_controller("stop", "--slot", "1")
    assert said.returncode == 0, said.stderr
    assert until(lambda: "1 is stopped" in fleet.status()["said"], 60)
    assert fleet.training == 3
    assert fleet.run_controller("restart", "--slot", "1").returncode == 0
    assert filled(fleet)


def test_an_empty_listing_at_exit_code_zero_ends_no_learner_that_beats(
    shared_cluster: Cluster, fleet: Student
) -> None:
    """squeue lists nothing for longer than two listings take to prove a job gone."""
    blind = fleet.config.parent / "bin" / "blind"
    before, ended = sorted(ours(shared_cluster)), len(fleet.ledger("ended"))
    blind.touch()
    try:
        assert until(lambda: fleet.ledger("absent"), 60)
        proven_ts = fleet.ledger("absent")[0]["ts"] + 1.5 * ControllerPolicy().absence_gap_s
        assert until(lambda: read_json(fleet.run.status)["ts"] > proven_ts, 120)
        assert fleet.status()["said"].startswith(
            "the queue cannot be read (squeue lists no job of this run, but heartbeats come from "
        )
    finally:
        blind.unlink()
    assert until(lambda: fleet.status()["verdict"] != "unknown", 60)
    assert fleet.training == 4
    assert sorted(ours(shared_cluster)) == before
    assert len(fleet.ledger("ended")) == ended


def test_a_frozen_slurmctld_changes_nothing_and_status_says_at_once_what_was_last_known(
    shared_cluster: Cluster, fleet: Student
) -> None:
    """A run under /tmp is accepted here, because the nodes have this host's boot time."""
    before, submitted = fleet.status(), len(fleet.ledger("intent"))
    healthy = shortest_status_s(fleet, 0)
    with shared_cluster.frozen("slurmctld"):
        os.kill(fleet.controller, signal.SIGKILL)
        assert until(lambda: fleet.status()["verdict"] == "unknown", 20)  # a dead one's last word
        frozen = fleet.status()
        assert frozen["exit_code"] == 22
        assert [slot["job_id"] for slot in frozen["slots"]] == [
            slot["job_id"] for slot in before["slots"]
        ]
        fleet.run.status.unlink()
        took = shortest_status_s(fleet, 22)
        text = fleet.run_controller("status").stdout
    assert "4 of 4 slots have a heartbeat" in text
    assert took - healthy < WAITED_S, (healthy, took)
    assert until(lambda: fleet.status()["verdict"] != "unknown", 30)
    assert len(fleet.ledger("intent")) == submitted


def test_a_new_run_name_keeps_the_fleet(shared_cluster: Cluster, fleet: Student) -> None:
    """1. Jobs train. 2. The name changes. 3. A job is submitted. 4. The controller is replaced."""
    assert fleet.run_controller("start").returncode == 0
    assert filled(fleet)
    before, absent = ours(shared_cluster), len(fleet.ledger("absent"))
    settings = json.loads(fleet.config.read_text())
    fleet.config.write_text(json.dumps({**settings, "run_name": "other"}))
    said = fleet.run_controller("start")
    assert said.returncode == 0, said.stderr
    waiting = next(line.split()[0] for line in before if "PENDING" in line)
    submitted = len(fleet.ledger("submitted"))
    shared_cluster.out("scancel", waiting)
    assert until(lambda: len(fleet.ledger("submitted")) == submitted + 1, 40)
    os.kill(fleet.controller, signal.SIGKILL)
    passed_ts = fleet.status()["ts"]
    assert fleet.run_controller("start").returncode == 0
    for _ in range(2):
        assert until(lambda: fleet.status()["ts"] > passed_ts, 20)  # noqa: B023 - called here
        passed_ts = fleet.status()["ts"]
    assert len(fleet.ledger("absent")) == absent
    kept = {line for line in before if line.split()[0] != waiting}
    assert kept < set(ours(shared_cluster))
    assert len(ours(shared_cluster)) == len(squeue(shared_cluster)) == 8
