"""The probe says what confines on this machine, and sees each protection that is off."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from Daddy.core.errors import SandboxError
from Daddy.sandbox.__main__ import probe_and_show, report
from Daddy.sandbox.probe import ATTEMPTS, Check, probe_backend
from Daddy.sandbox.sandbox_interfaces import SandboxSpec
from tests.components import program
from tests.patience import PATIENCE_S

if sys.platform != "linux":
    pytest.skip("bubblewrap needs Linux", allow_module_level=True)

from Daddy.sandbox.bubblewrap import BubblewrapBackend
from tests.sandbox.escapes import ORDINARY_UID, ROOT
from tests.sandbox.weakened import without

ARGV = [sys.executable, "-m", "Daddy.sandbox", "probe"]
AS_ORDINARY = f"""
import os, sys
from Daddy.core.entry_point import run_entry
from Daddy.sandbox import __main__, bubblewrap
os.setgroups([]); os.setresgid(*[{ORDINARY_UID}] * 3); os.setresuid(*[{ORDINARY_UID}] * 3)
os.environ["HOME"] = "/tmp"
sys.exit(run_entry(__main__.main, ["probe", "--backend", "bubblewrap"]))
"""
"""An ordinary user may not read our modules, so root loads them first."""


def probe(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv or ARGV, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        env={**os.environ, **env},
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _bubblewrap() -> None:
    program("bwrap", "bubblewrap")


def test_all_limits_hold_here() -> None:
    done = probe()
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert sum(line.startswith("held ") for line in lines) == len(ATTEMPTS)
    assert (
        lines[-1] == f"bubblewrap confines here: {len(ATTEMPTS)} of {len(ATTEMPTS)} attempts held"
    )
    assert "isolation  confined" in lines


@pytest.mark.skipif(os.geteuid() != 0, reason="this is an ordinary user already")
def test_all_limits_hold_for_an_ordinary_user() -> None:
    done = probe(sys.executable, "-c", AS_ORDINARY)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("held   ") == len(ATTEMPTS)


def test_without_bubblewrap_the_probe_names_the_line_to_type(tmp_path: Path) -> None:
    done = probe(PATH=str(tmp_path))
    assert done.returncode == 12
    assert "nothing on this machine confines commands: bubblewrap is not installed" in done.stderr
    assert "what to do: " in done.stderr
    assert "bubblewrap" in done.stderr.split("what to do: ")[1]


def test_an_unknown_backend_is_refused_with_the_known_ones() -> None:
    done = probe(*ARGV, "--backend", "bublewrap")
    assert done.returncode == 2
    assert "did you mean" in done.stderr
    assert "bubblewrap" in done.stderr


def checked(tried: str, spec: SandboxSpec | None = None, **limits: Any) -> Check:
    (attempt,) = [attempt for attempt in ATTEMPTS if attempt.tried.startswith(tried)]
    loose = replace(attempt, limits=replace(attempt.limits, **limits))
    shown: list[Check] = []
    backend, spec = BubblewrapBackend(), spec or SandboxSpec()
    (check,) = asyncio.run(probe_backend(backend, spec, shown.append, [loose]))
    assert shown == [check]
    return check


@pytest.mark.parametrize(
    ("tried", "off"),
    [
        ("connect to a listener", ("network namespace",)),
        ("hold a capability", ("capabilities",)),
        ("make a vsock", ("seccomp",)),
        ("see and end a process", ("pid namespace", "own /proc", "outer pid namespace", "account")),
        ("write to /usr", ("read-only /usr", "read-only mounts", "account")),
    ],
)
def test_a_protection_that_is_off_turns_its_line_red(tried: str, off: tuple[str, ...]) -> None:
    if "account" in off and os.geteuid():
        pytest.skip("an account of its own is given by root alone")
    with without(*off):
        assert not checked(tried).held
    assert checked(tried).held


@pytest.mark.parametrize(
    ("tried", "limits"),
    [
        ("fork past", {"processes": 400}),
        ("allocate past", {"memory_mb": 1024}),
        ("fill the scratch", {"scratch_mb": 64}),
        ("run past", {"time_s": 60.0}),
        ("flood", {"output_bytes": 1 << 24}),
    ],
)
def test_a_limit_that_is_off_turns_its_line_red(tried: str, limits: dict[str, Any]) -> None:
    assert not checked(tried, **limits).held


def test_what_the_next_command_finds_turns_its_line_red() -> None:
    assert not checked("leave a file", SandboxSpec(persistent=True)).held


def test_a_folder_that_is_shown_turns_its_line_red(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        monkeypatch.setattr("tempfile.tempdir", name)
        assert checked("read a file").held
        assert not checked("read a file", SandboxSpec(read_only=(folder,))).held


def test_one_line_that_failed_is_an_error_with_exit_code_12() -> None:
    console = Console(file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
    checks = [Check("fork", True, "RLIMIT"), Check("write to /usr", False, "/usr/x was made")]
    with pytest.raises(
        SandboxError, match=r"1 of 2 attempts got through \(write to /usr\)"
    ) as told:
        report("bubblewrap", checks, console)
    assert told.value.exit_code == 12
    assert told.value.fix


def test_a_failed_line_is_shown_in_red() -> None:
    console = Console(record=True, force_terminal=True, width=200, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
    with without("network namespace"):
        checks = probe_and_show(BubblewrapBackend(), "host", console)
    assert "connect to a listener on the host" in [c.tried for c in checks if not c.held]
    lines = [line for line in console.export_text(styles=True).splitlines() if "listener" in line]
    assert lines[0].lstrip().startswith("\x1b[1;31mFAILED"), lines
