"""Tests Slurm's programs: clean environment, counted calls, no child that outlives us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from Daddy.cluster.orchestrator.slurm_commands import SlurmCommands, slurm_environment
from Daddy.core.clock import SystemClock
from tests.cluster.conftest import until
from tests.components import absent


class FixedClock(SystemClock):
    """A clock that stands still."""

    def now(self) -> float:
        return 1795276800.5


def test_nothing_that_bends_answers_gets_through() -> None:
    poisoned = {
        "PATH": "/bin", "SLURM_CONF": "/etc/slurm.conf", "SQUEUE_STATES": "R", "SLURM_JOB_ID": "1",
        "SBATCH_JOB_NAME": "x", "SLURM_MEM_PER_NODE": "1", "SACCT_FORMAT": "x",
        "SLURM_TIME_FORMAT": "relative", "LC_ALL": "de_DE", "SCONTROL_ALL": "1",
    }  # fmt: skip
    assert slurm_environment(poisoned) == {
        "PATH": "/bin", "SLURM_CONF": "/etc/slurm.conf", "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C",
    }  # fmt: skip


def test_every_call_is_one_line_of_the_hosts_day(tmp_path: Path) -> None:
    folder = tmp_path / "calls"
    first, other = (SlurmCommands(FixedClock(), os.environ, folder) for _ in range(2))
    first.run(["true"], 5)
    first.run(["false"], 5)
    other.run(["true"], 5)
    (path,) = folder.iterdir()
    assert path.name.endswith("-2026-11-21.log")
    assert path.read_text() == "1795276800 true\n1795276800 false\n1795276800 true\n"


def test_a_count_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "calls").write_text("a file where the folder should be")
    commands = SlurmCommands(FixedClock(), os.environ, tmp_path / "calls")
    assert commands.run(["true"], 5).returncode == 0


PARENT = """
import os
from Daddy.cluster.orchestrator.slurm_commands import SlurmCommands
from Daddy.core.clock import SystemClock
SlurmCommands(SystemClock(), os.environ, None).run(["sbatch"], 60)
"""
FROZEN = """#!{python} -IS
import os, pathlib, time
pathlib.Path({pid!r}).write_text(str(os.getpid()))
time.sleep(1.5)
pathlib.Path({made!r}).touch()
"""


def test_a_frozen_sbatch_dies_with_its_controller_and_makes_no_job(tmp_path: Path) -> None:
    """Fault: the sbatch of a killed controller survived it and created a job."""
    if sys.platform != "linux":
        absent("Linux, whose kernel ends children of the killed")
    sbatch, made, pid = tmp_path / "sbatch", tmp_path / "job", tmp_path / "pid"
    sbatch.write_text(FROZEN.format(python=sys.executable, pid=str(pid), made=str(made)))
    sbatch.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], env=env)
    try:
        until(lambda: pid.exists() and pid.read_text(), 20)
        parent.send_signal(signal.SIGKILL)
        parent.wait(5)
        time.sleep(2.0)
        assert not made.exists()
    finally:
        parent.kill()
        parent.wait(5)
