"""Fixtures: a real Slurm test cluster with its login node, shared by all tests here."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from Daddy.core.run_paths import RunPaths
from tests import patience
from tests.cluster.conftest import Person, copied_checkout, small_config
from tests.components import absent
from tests.patience import PATIENCE_S
from tests.real.warm_status import WarmStatus

CHECKOUT = Path(__file__).resolve().parents[2]
TESTBED = CHECKOUT / "cluster" / "testbed"
_OF_OTHERS = ("SLURM_", "SBATCH_", "SQUEUE_", "SINFO_", "DADDY_", "LD_LIBRARY_PATH")
"""Variables that jobs do not get; opencv sets the last when a test imports pufferlib."""


def until(condition: Callable[[], object], timeout_s: float = 20.0) -> bool:
    """Wait as ``patience.until``, but ask four times a second: an answer may take processes."""
    return patience.until(condition, timeout_s, 0.25)


def run_testbed(
    command: str, *arguments: str, timeout_s: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run cluster/testbed/COMMAND."""
    return subprocess.run(
        [str(TESTBED / command), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@dataclass
class Cluster:
    """A running test cluster with helpers for its user."""

    dir: Path
    facts: Mapping[str, object]
    jobs: list[str] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        """The environment of a shell that sourced env.sh."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(_OF_OTHERS)
        }
        path = ":".join(filter(None, (str(self.facts["path"]), kept["PATH"])))
        conf = str(self.facts["slurm_conf"])
        return {**kept, "PATH": path, "SLURM_CONF": conf, "DADDY_SITE": "testbed"}

    @property
    def ssh_config(self) -> Path:
        """The file for ``ssh -F``; the host is ``login``."""
        return Path(str(self.facts["ssh_config"]))

    @property
    def host(self) -> str:
        """The address of the login node."""
        return str(self.facts["host"])

    @property
    def port(self) -> int:
        """The port of its sshd."""
        return int(str(self.facts["port"]))

    @property
    def user(self) -> str:
        """The login node's user."""
        return str(self.facts["user"])

    @property
    def remote_port(self) -> int:
        """The port on the login node for ``ssh -R``."""
        return int(str(self.facts["remote_port"]))

    @property
    def alone(self) -> bool:
        """True where the login node has its own network."""
        return self.facts["mode"] == "namespace"

    def run(self, *argv: str, timeout_s: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
        """Run a command in the test cluster's environment on this host."""
        return subprocess.run(
            argv, env=self.env, capture_output=True, text=True, timeout=timeout_s, check=False
        )

    def out(self, *argv: str) -> str:
        """Run a command and return its stripped output; fail the test when it fails."""
        done = self.run(*argv)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def ssh(self, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run a command on the login node."""
        return self.run("ssh", "-F", str(self.ssh_config), *options, "login", command)

    def submit(self, script: str, *options: str) -> str:
        """Submit a batch script, cancelled at the end of the test; return its job id."""
        job = self.out("sbatch", "--parsable", "--time=5", *options, "--wrap", script)
        self.jobs.append(job)
        return job

    def states(self) -> dict[str, str]:
        """Return job id → ``STATE REASON`` of all jobs that squeue lists."""
        rows = self.out("squeue", "-h", "-r", "-t", "all", "-o", "%i %T %r").splitlines()
        return {row.split()[0]: row.split(maxsplit=1)[1] for row in rows}

    def daemon(self, name: str) -> int:
        """Return a daemon's process id from the supervisor's record."""
        return int(json.loads((self.dir / "run" / "daemons.json").read_text())[name][0])

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """Suspend this daemon in the body."""
        pid = self.daemon(name)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def cancel(self) -> None:
        """Cancel the jobs of this test."""
        if self.jobs:
            self.run("scancel", "-s", "KILL", "-f", *self.jobs)
            self.run("scancel", *self.jobs)
        self.jobs.clear()


def start(folder: Path, *options: str) -> Cluster:
    """Run ``up`` in this folder; skip the test without it, or fail in CI."""
    folder.chmod(0o755)
    done = run_testbed("up", "--dir", str(folder), "--json", *options)
    if done.returncode:
        lines: Sequence[str] = done.stderr.strip().splitlines()
        why = next((line for line in lines if line.startswith("error:")), "no message")
        if "missing here" not in why:
            pytest.fail(f"cluster/testbed/up: {done.stderr}")
        absent(f"Slurm: {why}")
    return Cluster(folder, json.loads(done.stdout))


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[Cluster]:
    """Start the shared cluster; tests use ``cluster``."""
    folder = Path(tempfile.mkdtemp(prefix="daddy-test-", dir="/tmp"))
    try:
        yield start(folder)
    finally:
        run_testbed("down", "--dir", str(folder), "--purge")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """Return the shared cluster; cancel the test's jobs afterwards."""
    try:
        yield shared_cluster
    finally:
        shared_cluster.cancel()


@pytest.fixture
def own_folder() -> Iterator[Path]:
    """Return a short folder for a test's own cluster; end the cluster afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="daddy-own-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        run_testbed("down", "--dir", str(folder), "--purge")
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Student(Person):
    """A user on the login node with one run."""

    warm_status: WarmStatus

    def status(self, *argv: str) -> dict[str, Any]:
        """Return ``status --json`` as a record, without the time that an import takes."""
        return self.warm_status.ask(self.env, self.config, *argv)

    def configure(
        self, max_runtime_s: int = 300, controller: Mapping[str, object] = {}, **slurm: object
    ) -> None:
        """Write the configuration, by default with two slots and jobs of five minutes."""
        settings = small_config(
            self.run.root,
            training={"max_runtime_seconds": max_runtime_s},
            slurm={"time_limit": "0:05:00", "partition": "gpu-linuxlab", **slurm},
            controller={"executor": "auto", "poll_seconds": 1, **controller},
        )
        self.config.write_text(json.dumps(settings))


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkout with the small learner that no test may change."""
    return copied_checkout(tmp_path_factory.mktemp("checkout"))


@contextmanager
def student_of(cluster: Cluster, checkout: Path, folder: Path) -> Iterator[Student]:
    """Yield a user with a run in this folder, whose jobs are ended afterwards."""
    run = RunPaths(folder / "runs" / "tiny")
    env = {name: text for name, text in cluster.env.items() if name != "DADDY_SITE"}
    env["PYTHONPATH"] = str(checkout)
    someone = Student(checkout, folder / "run.json", run, env, WarmStatus(checkout))
    someone.configure()
    try:
        yield someone
    finally:
        if someone.run.intent.exists():
            assert someone.run_controller("stop", "--now").returncode == 0
        someone.warm_status.end()


@pytest.fixture
def student(cluster: Cluster, checkout: Path, tmp_path: Path) -> Iterator[Student]:
    """Return a user whose jobs are ended after the test."""
    with student_of(cluster, checkout, tmp_path) as someone:
        yield someone


@contextmanager
def slurm_conf_with(cluster: Cluster, **settings: object) -> Iterator[None]:
    """Add settings to slurm.conf inside the `with` block."""
    conf = cluster.dir / "etc" / "slurm.conf"
    usual = conf.read_text()
    try:
        conf.write_text(usual + "".join(f"{name}={text}\n" for name, text in settings.items()))
        cluster.out("scontrol", "reconfigure")
        yield
    finally:
        conf.write_text(usual)
        cluster.out("scontrol", "reconfigure")


def shortest_status_s(person: Person, code: int, tries: int = 2) -> float:
    """Return the best of a few times of ``status``, in seconds."""
    took = []
    for _ in range(tries):
        began = time.monotonic()
        told = person.run_controller("status")
        took.append(time.monotonic() - began)
        assert told.returncode == code, told.stdout + told.stderr
    return min(took)
