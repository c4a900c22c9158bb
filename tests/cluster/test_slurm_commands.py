"""Tests Slurm's programs: clean environment, counted calls, no child that outlives us."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.control_files import read_intent, write_intent
from Daddy.cluster.orchestrator.controller_types import DesiredRun, Mode
from Daddy.cluster.orchestrator.slurm_commands import (
    SlurmCommands,
    complete_environment,
    keep_environment,
    name_settings,
    read_shell_settings,
    slurm_environment,
)
from Daddy.core.clock import SystemClock
from Daddy.core.host_and_processes import identify_process, is_alive
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import SlurmSettings
from tests.cluster.conftest import until
from tests.components import absent
from tests.patience import PATIENCE_S


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


def test_cron_gets_what_slurm_needs_of_the_shell_that_typed_start() -> None:
    shell = {
        "PATH": "/opt/slurm/bin:/usr/bin", "SLURM_CONF": "/opt/slurm.conf", "HF_TOKEN": "secret",
        "LD_LIBRARY_PATH": "/opt/slurm/lib", "MODULEPATH": "/opt/modules", "SHELL": "/bin/bash",
        "SQUEUE_STATES": "R",
    }  # fmt: skip
    kept, dropped = keep_environment(shell)
    assert dropped == []
    assert not {"HF_TOKEN", "SQUEUE_STATES"} & set(kept)
    cron = {"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh", "HOME": "/ada"}
    assert complete_environment(cron, kept) == {
        **cron, "PATH": "/usr/bin:/bin:/opt/slurm/bin", "SLURM_CONF": "/opt/slurm.conf",
        "LD_LIBRARY_PATH": "/opt/slurm/lib", "MODULEPATH": "/opt/modules",
    }  # fmt: skip
    assert complete_environment(shell, kept) == shell
    assert complete_environment(cron, {}) == cron


def test_at_most_48_kib_of_the_shell_are_kept_and_the_rest_is_named(tmp_path: Path) -> None:
    folders = [f"/opt/märchen-{number:05}/bin" for number in range(3000)]
    shell = {"PATH": ":".join(folders), "SLURM_CONF": "/etc/slurm.conf", "SHELL": "/bin/sh"}
    shell |= {"BASH_ENV": "x" * 50_000, "LD_LIBRARY_PATH": "/opt/lib"}
    kept, (dropped,) = keep_environment(shell)
    assert len(json.dumps(kept)) <= 48 << 10
    assert (kept["SLURM_CONF"], kept["SHELL"]) == ("/etc/slurm.conf", "/bin/sh")
    first = kept["PATH"].split(":")
    assert first == folders[: len(first)]
    assert len(first) > 1000
    assert dropped.startswith("over 48 KiB, so not kept for cron: BASH_ENV, ")
    assert f"PATH after its first {len(first)} folders" in dropped
    run = RunPaths(tmp_path)
    write_intent(run, DesiredRun(Mode.RUN, 1, "slurm", "r", "cartpole", environment=kept), 1.0)
    read = read_intent(run)
    assert read is not None
    assert read.environment == kept
    assert keep_environment({"PATH": "/bin:/usr/bin:" * 5000})[0] == {"PATH": "/bin:/usr/bin:"}


def test_a_shell_s_variable_fills_a_setting_that_nobody_set_and_others_are_named() -> None:
    shell = {
        "PATH": "/bin", "SBATCH_ACCOUNT": "lab", "SBATCH_PARTITION": "big", "SBATCH_QOS": "",
        "SBATCH_RESERVATION": "course", "SBATCH_CONSTRAINT": "a100",
    }  # fmt: skip
    values, notes = read_shell_settings(SlurmSettings(), shell)
    assert values == {
        "slurm.account": "lab", "slurm.partition": "big", "slurm.reservation": "course",
        "slurm.constraint": "a100",
    }  # fmt: skip
    assert notes == []
    given = SlurmSettings(account="ours", partition="big", constraint="")
    others = {"SBATCH_TIMELIMIT": "1", "SBATCH_EXPORT": "NONE"}
    values, notes = read_shell_settings(given, {**shell, **others})
    assert values == {"slurm.reservation": "course", "slurm.constraint": "a100"}
    (note,) = notes
    named = "SBATCH_ACCOUNT (slurm.account is set), SBATCH_EXPORT, SBATCH_TIMELIMIT"
    assert note.startswith(f"not used: {named};")


@pytest.mark.parametrize(
    ("error", "settings"),
    [
        ("Invalid account or account/partition combination specified",
         "slurm.account, slurm.partition"),
        ("sbatch: error: You must give an account (-A)", "slurm.account"),
        ("invalid partition specified: nope", "slurm.partition"),
        ("Invalid qos specification", "slurm.qos"),
        ("Invalid feature specification", "slurm.constraint"),
        ("Requested reservation is invalid", "slurm.reservation"),
        ("Invalid license specification", "slurm.licenses"),
        ("Requested time limit is invalid (missing or exceeds some limit)", "slurm.time_limit"),
        ("Requested node configuration is not available",
         "slurm.cpus_per_job, slurm.gpus_per_job, slurm.gpu_type, slurm.memory"),
        ("Invalid generic resource (gres) specification", "slurm.gpus_per_job, slurm.gpu_type"),
        ("More processors requested than permitted", "slurm.cpus_per_job"),
        ("Memory specification can not be satisfied", "slurm.memory"),
        ("Invalid node name specified", "slurm.exclude"),
        ("/usr/bin/sbatch: unrecognized option '--foo=3'", "slurm.options"),
        ("Unable to contact slurm controller (connect failure)", ""),
    ],
)  # fmt: skip
def test_an_error_of_sbatch_leads_to_our_settings(error: str, settings: str) -> None:
    assert name_settings(error) == settings


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
while not pathlib.Path({answers!r}).exists():
    time.sleep(0.05)
"""


def test_a_frozen_sbatch_dies_with_its_controller(tmp_path: Path) -> None:
    """Fault: the sbatch of a killed controller survived it and created a job."""
    if sys.platform != "linux":
        absent("Linux, whose kernel ends children of the killed")
    sbatch, pid, answers = (tmp_path / name for name in ("sbatch", "pid", "answers"))
    facts = {"python": sys.executable, "pid": str(pid), "answers": str(answers)}
    sbatch.write_text(FROZEN.format(**facts))
    sbatch.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], env=env)
    try:
        until(lambda: pid.exists() and pid.read_text(), 20)
        child = identify_process(int(pid.read_text()))
        assert child
        parent.send_signal(signal.SIGKILL)
        parent.wait(PATIENCE_S)
        until(lambda: not is_alive(child))
    finally:
        answers.touch()
        parent.kill()
        parent.wait(PATIENCE_S)
