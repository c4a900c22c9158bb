"""Tests that the causes of failed jobs are told: no program, too little memory, a dead node."""

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.conftest import Cluster, Student, run_testbed, start, until

CGROUPS = Path("/sys/fs/cgroup/memory")
MEASURED = "TaskPlugin=task/cgroup\nJobAcctGatherFrequency=1\n"


def make_limited(cluster: Cluster) -> None:
    """Let Slurm measure and limit the memory of jobs, and start its daemons anew."""
    conf = cluster.dir / "etc" / "slurm.conf"
    text = conf.read_text().replace("jobacct_gather/none", "jobacct_gather/linux")
    conf.write_text(text.replace("TaskPlugin=task/none\n", MEASURED))
    with (conf.parent / "cgroup.conf").open("a") as limits:
        limits.write("ConstrainRAMSpace=yes\n")
    for name in ("slurmctld", "slurmd-n1", "slurmd-n2", "slurmd-n3", "slurmd-n4"):
        os.kill(cluster.daemon(name), signal.SIGKILL)
    done = run_testbed("up", "--dir", str(cluster.dir))
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    """Start a test cluster of its own, which limits memory where cgroups can be made."""
    folder = Path(tempfile.mkdtemp(prefix="daddy-ends-", dir="/tmp"))
    try:
        cluster = start(folder)
        if os.access(CGROUPS, os.W_OK):
            make_limited(cluster)
        yield cluster
    finally:
        run_testbed("down", "--dir", str(folder), "--purge")
        shutil.rmtree(folder, ignore_errors=True)
        for left in sorted(CGROUPS.glob("slurm_n[1-4]/**/"), reverse=True):
            with contextlib.suppress(OSError):
                left.rmdir()


def first_end(student: Student) -> str:
    """Start the run; return the lines of ``logs --failed`` on the first job that failed."""
    said = student.run_controller("start")
    assert said.returncode == 0, said.stderr
    assert until(lambda: student.ledger("ended"), 120)
    first = student.ledger("ended")[0]["token"]
    (job,) = [entry["job_id"] for entry in student.ledger("submitted") if entry["token"] == first]
    lines = student.run_controller("logs", "--failed").stdout.splitlines()
    (begin,) = [number for number, line in enumerate(lines) if f"job {job}," in line]
    return "\n".join(lines[begin : begin + 3])


def test_a_job_without_its_program_is_shown_with_its_last_line_of_errors(student: Student) -> None:
    student.configure(setup=["exec /no/such/python"])
    told = first_end(student)
    print(told)
    assert "no slot" in told
    assert "crashed: exit code 127 (a program was not found: check slurm.setup" in told
    assert "last line of errors: " in told
    assert "/no/such/python: No such file or directory" in told
    assert "/no/such/python" in student.run_controller("logs").stdout, "it never held a lease"
    assert "exit code 127" in student.run_controller("status").stdout


def test_a_job_that_slurm_ends_for_its_memory_is_told_as_such(student: Student) -> None:
    if not os.access(CGROUPS, os.W_OK):
        pytest.skip("cgroups (version 1) of this machine cannot be changed")
    fills = "x=$(head -c 300M /dev/zero | tr '\\0' x); sleep 300"
    student.configure(memory="60M", setup=["sleep 3", fills])
    told = first_end(student)
    print(told)
    assert "crashed: out of memory (OUT_OF_MEMORY): raise slurm.memory" in told
    assert until(
        lambda: " MiB used of 60M asked" in student.run_controller("logs", "--failed").stdout
    )
    assert "out of memory" in student.run_controller("status").stdout


def test_a_node_that_fails_is_named(cluster: Cluster, student: Student) -> None:
    assert student.run_controller("start").returncode == 0
    assert until(lambda: student.training == 2, 60)
    slot = student.status()["slots"][0]
    try:
        cluster.out("scontrol", "update", f"nodename={slot['node']}", "state=down", "reason=test")
        assert until(lambda: student.ledger("ended"), 60)
        told = student.run_controller("logs", "--failed").stdout
        print(told)
        assert f"job {slot['job_id']}, slot {slot['slot']}, ran" in told
        assert f"on {slot['node']}: node failed: node {slot['node']} failed (NODE_FAIL)" in told
        assert until(lambda: student.training == 2, 60)
    finally:
        cluster.run("scontrol", "update", f"nodename={slot['node']}", "state=resume")
