"""Tests that a soak on a real Slurm ends all that it started when it is terminated."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.patience import PATIENCE_S

CHECKOUT = Path(__file__).resolve().parents[2]


def slurm_conf_of(mark: str) -> str:
    """Return SLURM_CONF of a process whose environment names ``mark``, "" without one."""
    for process in psutil.process_iter():
        try:
            environ = process.environ()
        except psutil.Error:
            continue
        if mark in environ.get("PATH", ""):
            return environ["SLURM_CONF"]
    return ""


def processes_of(*marks: str) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            texts = [*process.cmdline(), *process.environ().values()]
        except psutil.Error:
            continue
        found += [str(process)] * any(mark in text for text in texts for mark in marks)
    return found


@pytest.mark.timeout(900)
def test_a_terminated_soak_leaves_no_process_mount_or_folder() -> None:
    """Seed 18 freezes slurmctld first; a second TERM does not cut the cleanup short."""
    argv = [sys.executable, "-u", "-m", "scripts.soaks", "slurm", "--minutes", "5", "--seed", "18"]
    with subprocess.Popen(argv, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as soak:
        try:
            assert soak.stdout is not None
            assert any("freeze slurmctld" in line for line in soak.stdout)
            mark = f"daddy-soak-{soak.pid}-"
            slurm = slurm_conf_of(mark)
            assert "daddy-bench-" in slurm
            soak.send_signal(signal.SIGTERM)
            assert any("ending all" in line for line in soak.stdout)
            soak.send_signal(signal.SIGTERM)
            assert soak.wait(PATIENCE_S) == 130
        finally:
            soak.terminate()  # it cleans up; a kill would leave its mount
    assert processes_of(mark, slurm) == []
    assert mark not in Path("/proc/self/mounts").read_text()
    assert [path for path in Path("/tmp").iterdir() if path.name.startswith(mark)] == []
    assert not Path(slurm).exists()
