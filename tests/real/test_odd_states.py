"""Tests commands while Slurm or the run's folder is in an odd state."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.control_files import read_intent
from Daddy.core.load_config import load_config
from tests.real.conftest import Cluster, Student, slurm_conf_with, student_of, until

LONG_S = 120.0


@pytest.fixture(scope="module")
def hold(shared_cluster: Cluster) -> Iterator[Path]:
    """Yield a file that keeps the nodes' epilog running while it exists."""
    file, epilog = shared_cluster.dir / "hold", shared_cluster.dir / "etc" / "epilog"
    epilog.write_text(f"#!/bin/sh\nwhile [ -e {file} ]; do sleep 0.2; done\n")
    epilog.chmod(0o755)
    with slurm_conf_with(shared_cluster, Epilog=epilog):
        yield file
        file.unlink(missing_ok=True)


def said(student: Student, words: str) -> Callable[[], bool]:
    return lambda: words in student.status()["said"]


def test_commands_name_what_keeps_jobs_from_training(
    cluster: Cluster, student: Student, hold: Path
) -> None:
    student.configure(max_runtime_s=540, time_limit="0:10:00", max_running=4)
    refused = cluster.run(
        "srun", "--time=5", "--mem=100M", "env", "-u", "DADDY_SITE", "-C", str(student.checkout),
        *(f"{name}={text}" for name, text in student.env.items() if name == "PYTHONPATH"),
        sys.executable, "-m", "Daddy.cluster.orchestrator.run_controller", "start",
        "--config", str(student.config),
    )  # fmt: skip
    assert "this shell is in Slurm job" in refused.stderr
    assert read_intent(student.run) is None
    begun = student.run_controller("start")
    assert begun.returncode == 0, begun.stderr
    first = student.status()
    assert first["exit_code"] == 0, first["said"]
    assert until(lambda: student.training == 4 and bool(student.status()["waiting"]), LONG_S)
    partition = "partitionname=gpu-linuxlab"
    cluster.out("scontrol", "update", partition, "state=down")
    assert until(said(student, "cannot start now (PartitionDown)"), LONG_S), student.status()[
        "said"
    ]
    assert student.status()["exit_code"] == 20
    cluster.out("scontrol", "update", partition, "state=up")
    assert until(said(student, "all is well"), LONG_S), student.status()["said"]

    job = str(student.status()["slots"][0]["job_id"])
    cluster.out("scontrol", "suspend", job)
    assert until(said(student, "1 is suspended by Slurm"), LONG_S), student.status()["said"]
    assert student.status()["slots"][0]["state"] == "suspended"
    cluster.out("scontrol", "resume", job)

    hold.touch()

    def ends() -> bool:
        """Signal the job until it ends: Slurm drops signals of a step that it is still resuming."""
        cluster.run("scancel", "--signal=USR1", "--batch", job)
        return bool(student.status()["queue"]["ending"])

    try:
        assert until(ends, LONG_S)
        seen = student.status()["queue"]
        assert [str(entry["job_id"]) for entry in seen["ending"]] == [job]
        assert seen["running"] <= 4
    finally:
        hold.unlink()
    assert until(lambda: not student.status()["queue"]["ending"], LONG_S)


@pytest.fixture(scope="module")
def student_of_both(
    shared_cluster: Cluster, checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Student]:
    """Start a run whose jobs may use either of two partitions."""
    both = ("gpu-linuxlab", "second")
    shared_cluster.out("scontrol", "create", "partitionname=second", "nodes=ALL")
    try:
        with student_of(shared_cluster, checkout, tmp_path_factory.mktemp("both")) as student:
            student.configure(max_runtime_s=1140, time_limit="0:20:00", partition=list(both))
            assert student.run_controller("start").returncode == 0
            assert until(lambda: student.training == 2, LONG_S)
            yield student
    finally:
        shared_cluster.run("scontrol", "delete", "partitionname=second")


def test_closed_partitions_are_told_while_jobs_wait_for_their_predecessors(
    cluster: Cluster, student_of_both: Student
) -> None:
    student = student_of_both
    try:
        assert until(lambda: any(job["why"] == "Dependency" for job in student.status()["waiting"]))
        assert until(said(student, "all is well"), LONG_S), student.status()["said"]
        cluster.out("scontrol", "update", "partitionname=gpu-linuxlab", "state=down")
        cluster.out("scontrol", "update", "partitionname=second", "state=down")
        down = "no further job can start (partition gpu-linuxlab is down; partition second is down)"
        assert until(said(student, down), LONG_S), student.status()["said"]
        assert student.status()["exit_code"] == 20
        assert {job["why"] for job in student.status()["waiting"]} == {"Dependency"}
        cluster.out("scontrol", "update", "partitionname=second", "state=up")
        assert until(said(student, "all is well"), LONG_S), student.status()["said"]
        cluster.out("scontrol", "update", "nodename=n[1-4]", "state=drain", "reason=fans")
        assert until(said(student, "nodes of second: "), LONG_S), student.status()["said"]
        assert "drain" in student.status()["said"]
    finally:
        cluster.run("scontrol", "update", "nodename=n[1-4]", "state=resume")
        cluster.run("scontrol", "update", "partitionname=gpu-linuxlab", "state=up")
        cluster.run("scontrol", "update", "partitionname=second", "state=up")


def test_a_moved_run_folder_is_looked_for_in_the_queue(
    cluster: Cluster, student_of_both: Student
) -> None:
    student = student_of_both
    assert until(said(student, "all is well"), LONG_S), student.status()["said"]
    assert student.training == 2
    assert until(lambda: student.status()["waiting"], LONG_S)
    for job in student.status()["waiting"]:  # it stays there, while learners without a folder end
        cluster.out("scontrol", "hold", str(job["job_id"]))
    moved = student.run.root.with_name("moved")
    student.run.root.rename(moved)
    seen = student.status()
    assert seen["exit_code"] == 20
    assert "its folder was moved or removed" in seen["said"]
    stopped = student.run_controller("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert "of its jobs are in the queue: they are cancelled" in stopped.stdout
    assert "stopped: no job is left" in stopped.stdout
    assert load_config(student.config).run_name == "tiny"
    assert "nothing to stop" in student.run_controller("stop").stdout
