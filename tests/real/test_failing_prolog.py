"""Tests jobs that a failing prolog ends, as a user without rights over Slurm."""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.control_files import read_intent
from Daddy.core.run_paths import RunPaths
from tests.cluster.conftest import Person, copied_checkout
from tests.patience import PATIENCE_S
from tests.real.conftest import Cluster, Student, slurm_conf_with, until
from tests.real.warm_status import WarmStatus

PROLOG = '#!/bin/sh\ncase "$SLURMD_NODENAME" in n1|n2) exit 1;; esac\n'


@pytest.fixture(autouse=True)
def failing_prolog(cluster: Cluster) -> Iterator[None]:
    """Give the nodes a prolog that fails on two of the four."""
    prolog = cluster.dir / "etc" / "prolog"
    prolog.write_text(PROLOG)
    prolog.chmod(0o755)
    try:
        with slurm_conf_with(cluster, Prolog=prolog):
            yield
    finally:
        cluster.run("scontrol", "update", "nodename=n[1-2]", "state=resume")


def readable_python(folder: Path) -> Path:
    """Copy this Python to where every account may run it; it imports this one's packages."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    leave = shutil.ignore_patterns(
        "test", "site-packages", "dist-packages", "__pycache__", "config-*"
    )
    base, library = Path(sys.base_prefix), folder / "lib" / version
    shutil.copytree(base / "lib" / version, library, ignore=leave)
    for path in (base / "lib").glob("libpython*.so*"):
        shutil.copy2(path, folder / "lib")
    for name in ("site-packages", "dist-packages"):  # Debian's own Python reads the second
        (library / name).mkdir(exist_ok=True)
        (library / name / "all.pth").write_text(sysconfig.get_path("purelib"))
    (folder / "bin").mkdir()
    return Path(shutil.copy2(base / "bin" / version, folder / "bin" / version))


class Friend(Student):
    """The second user of the test cluster, who types on its login node."""

    ssh: tuple[str, ...] = ()
    python: str = sys.executable
    status = Person.status  # by his account

    def run_controller(
        self, *argv: str, timeout_s: float = PATIENCE_S
    ) -> subprocess.CompletedProcess[str]:
        module = "Daddy.cluster.orchestrator.run_controller"
        shell = ["env", "--unset=DADDY_SITE", f"--chdir={self.checkout}"]
        shell += [f"{name}={text}" for name, text in self.env.items()]
        words = [*shell, self.python, "-m", module, *argv, "--config", str(self.config)]
        return subprocess.run(
            [*self.ssh, shlex.join(words)],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


@pytest.fixture
def student(cluster: Cluster) -> Iterator[Student]:
    """Return the second user; end the jobs after the test."""
    if not cluster.facts["friend"]:
        pytest.skip("only root can be a second user")
    home = cluster.dir / "home" / "friend" / "run"
    user_id = home.parent.stat().st_uid
    home.mkdir()
    checkout = copied_checkout(home / "checkout")
    python = readable_python(home / "python")
    libraries = str(python.parents[1] / "lib")
    env = {
        "LD_LIBRARY_PATH": libraries, "PYTHONPATH": str(checkout),
        "PATH": f"{cluster.facts['path']}:/usr/bin:/bin",
    }  # fmt: skip
    run = RunPaths(home / "runs" / "tiny")
    someone = Friend(checkout, home / "run.json", run, env, WarmStatus(checkout))
    someone.ssh = ("ssh", "-F", str(cluster.ssh_config), "friend")
    someone.python = str(python)
    someone.configure(setup=[f"export LD_LIBRARY_PATH={libraries}"])
    for path in (home, *home.rglob("*")):
        os.chown(path, user_id, user_id)
    try:
        yield someone
    finally:
        if run.intent.exists():
            assert someone.run_controller("stop", "--now").returncode == 0
        shutil.rmtree(home)


def is_paused(student: Student) -> bool:
    return student.status()["mode"] == "paused"


def test_a_failing_prolog_is_the_nodes_failure_and_the_run_goes_on(
    cluster: Cluster, student: Student
) -> None:
    """Slurm ends the run's first jobs as cancelled by user 0 and drains their nodes."""
    said = student.run_controller("start")
    assert said.returncode == 0, said.stderr
    assert until(lambda: student.training == 2 or is_paused(student), 60)
    assert not is_paused(student), read_intent(student.run)
    ended = student.ledger("ended")
    assert {(entry["outcome"], entry["reason"]) for entry in ended} == {
        ("node failed", f"node {node} is drained: Prolog error") for node in ("n1", "n2")
    }
    assert until(lambda: student.status()["waiting"], 60)
    waiting = student.status()["waiting"][0]["job_id"]
    cluster.out("scancel", str(waiting))
    assert until(lambda: is_paused(student), 60), "an administrator cancelled a pending job"
    intent = read_intent(student.run)
    assert intent is not None
    assert intent.reason == f"user 0 cancelled job {waiting}"
