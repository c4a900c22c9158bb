"""`python -m Daddy.autotune`, as typed in the guide: real environments, a real network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from Daddy.core.host_and_processes import usable_cores
from Daddy.hardware.machine_profile import load_profile
from Daddy.hardware.recommend_envs import MachineFacts
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[1]


def autotune(home: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    keep = {name: value for name, value in os.environ.items() if not name.startswith("DADDY_")}
    keep.pop("XDG_CONFIG_HOME", None)
    return subprocess.run(
        [sys.executable, "-m", "Daddy.autotune", "--nice", "0", *arguments],  # else tests starve
        cwd=home,
        env={**keep, "HOME": str(home), "PYTHONPATH": str(ROOT), **environ},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_a_machine_is_measured_and_remembered_under_its_users_name(tmp_path: Path) -> None:
    done = autotune(tmp_path, "--user-id", "Annas-MacBook.local", "--quick", "--cartridge")
    assert done.returncode == 0, done.stderr
    assert "'Annas-MacBook.local' is written 'annas-macbook'" in done.stdout
    assert "steps/s" in done.stdout
    stored = load_profile(tmp_path / ".config" / "daddy" / "profiles", "annas-macbook")
    assert stored is not None
    assert f"recommended: --num-envs {stored.envs}" in done.stdout
    assert stored.envs in [row.envs for row in stored.rows]
    assert all(row.steps_per_s > 0 and row.resident_bytes > 1 << 20 for row in stored.rows)
    assert stored.fits(MachineFacts(usable_cores(), stored.facts.memory_bytes))
    assert {row.groups for row in stored.rows} == {0, 1, 2, 4}
    assert "the guide's table, without a measurement:" in done.stdout


def test_another_workload_and_folder_can_be_named(tmp_path: Path) -> None:
    chosen = ("--quick", "--workload", "cartpole", "--profile-dir", "profiles")
    done = autotune(tmp_path, "--user-id", "anna", *chosen)
    assert done.returncode == 0, done.stderr
    stored = load_profile(tmp_path / "profiles", "anna")
    assert stored is not None
    assert stored.workload == "cartpole"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--user-id", "..."], 2, "cannot name a peer"),
        (["--rom", "nowhere.gb"], 7, "nowhere.gb"),
        (["--rom", "x.gb", "--cartridge"], 2, "exclude each other"),
        (["--device", "mps"], 3, "mps"),
        (["--profile-dir", "/dev/null/profiles"], 9, "/dev/null"),
    ],
)
def test_what_cannot_be_done_is_said_once_with_its_exit_code(
    tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    done = autotune(tmp_path, "--quick", *arguments)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "what to do:" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_loads_no_torch(tmp_path: Path) -> None:
    done = autotune(tmp_path, "--help", PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0
    assert " torch" not in done.stderr
    assert "--user-id" in done.stdout
