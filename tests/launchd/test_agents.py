"""Tests of the files that ``launchd/install.sh`` makes, with launchd's and systemd's parsers."""

import os
import plistlib
import subprocess
from pathlib import Path

import pytest

from tests.components import program
from tests.patience import PATIENCE_S

CHECKOUT = Path(__file__).resolve().parents[2]
INSTALL = CHECKOUT / "launchd" / "install.sh"
UNINSTALL = CHECKOUT / "launchd" / "uninstall.sh"
SCRIPT = str(CHECKOUT / "Daddy" / "cluster" / "sync_weights.sh")
ODD = {
    "SYNC_CLUSTER_USER": "a&b",
    "SYNC_REMOTE_DIR": '/x y/%h/$z"q\\<w>',
    "SYNC_TRANSPORT": "sftp",
}


def run(home: Path, system: str, *words: str, script: Path = INSTALL, **changes: str):
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "DADDY_INIT": system, **changes}
    return subprocess.run(
        [str(script), *words], env=environment, timeout=PATIENCE_S, check=False,
        capture_output=True, text=True,
    )  # fmt: skip


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "my home & <all>"
    folder.mkdir()
    return folder


def test_the_agent_is_the_guides_com_pokemon_sync(home):
    done = run(home, "launchd", "--print", **ODD)
    agent = plistlib.loads(done.stdout.encode())
    assert agent["Label"] == "com.pokemon.sync"
    assert agent["ProgramArguments"] == [SCRIPT, "pull", "", f"{home}/shared_weights", "5"]
    assert agent["RunAtLoad"] is True
    assert agent["KeepAlive"] is True
    assert agent["EnvironmentVariables"] == ODD
    assert agent["StandardErrorPath"] == f"{home}/Library/Logs/com.pokemon.sync.log"


def test_its_arguments_are_what_was_asked_for(home):
    done = run(home, "launchd", "--print", "bidirectional", "me@login", "/data/w", "30")
    arguments = plistlib.loads(done.stdout.encode())["ProgramArguments"]
    assert arguments[1:] == ["bidirectional", "me@login", "/data/w", "30"]


def fake(folder: Path, name: str, code: str = "") -> None:
    """Create a program that logs its arguments (launchctl exists on macOS only)."""
    program = folder / name
    program.write_text(f'#!/bin/sh\necho "$@" >> {folder}/{name}.log\n{code}\n')
    program.chmod(0o755)


def test_install_loads_the_agent_and_uninstall_removes_it(home, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    fake(programs, "launchctl")
    path = f"{programs}:{os.environ['PATH']}"
    agent = home / "Library" / "LaunchAgents" / "com.pokemon.sync.plist"
    done = run(home, "launchd", PATH=path)
    assert done.returncode == 0, done.stderr
    assert plistlib.loads(agent.read_bytes())["Label"] == "com.pokemon.sync"
    assert f"load {agent}" in (programs / "launchctl.log").read_text()
    run(home, "launchd", PATH=path)  # again: replaces it
    gone = run(home, "launchd", script=UNINSTALL, PATH=path)
    assert "removed" in gone.stdout
    assert not agent.exists()
    assert "nothing to remove" in run(home, "launchd", script=UNINSTALL, PATH=path).stdout


def test_the_unit_is_accepted_by_systemd_itself(home, tmp_path):
    program("systemd-analyze", "systemd")
    done = run(home, "systemd", "--print", **ODD)
    unit = tmp_path / "pokemon-sync.service"
    unit.write_text(done.stdout)
    verdict = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "SYSTEMD_LOG_LEVEL": "warning"},
    )  # fmt: skip
    about_ours = [line for line in verdict.stderr.splitlines() if "pokemon-sync" in line]
    assert about_ours == []


def test_the_unit_runs_the_same_command_with_the_same_settings(home):
    text = run(home, "systemd", "--print", "pull", "", "/data/my w", "5", **ODD).stdout
    lines = text.splitlines()
    assert f'ExecStart="{SCRIPT}" pull "" "/data/my w" 5' in lines
    assert 'Environment="SYNC_CLUSTER_USER=a&b"' in lines
    assert 'Environment="SYNC_REMOTE_DIR=/x y/%%h/$z\\"q\\\\<w>"' in lines
    assert 'Environment="SYNC_TRANSPORT=sftp"' in lines
    assert "Restart=always" in lines
    assert "RestartPreventExitStatus=2 3 8" in lines


def test_a_broken_unit_would_be_noticed(home, tmp_path):
    program("systemd-analyze", "systemd")
    unit = tmp_path / "pokemon-sync.service"
    unit.write_text(
        run(home, "systemd", "--print").stdout.replace("Restart=always", "Restart=no w")
    )
    verdict = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert any("pokemon-sync" in line for line in verdict.stderr.splitlines())


def test_without_a_user_manager_the_unit_is_written_and_the_next_step_said(home, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    fake(programs, "systemctl", "exit 1")
    done = run(home, "systemd", PATH=f"{programs}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    assert (home / ".config" / "systemd" / "user" / "pokemon-sync.service").exists()
    assert "systemctl --user enable --now pokemon-sync" in done.stdout
    gone = run(home, "systemd", script=UNINSTALL, PATH=f"{programs}:{os.environ['PATH']}")
    assert "removed" in gone.stdout


@pytest.mark.parametrize("words", [("push",), ("pull", "", "/x", "soon"), ("pull", "", "/a\nb")])
def test_what_cannot_be_kept_running_is_refused(home, words):
    done = run(home, "launchd", "--print", *words)
    assert done.returncode == 2
    assert "what to do" in done.stderr
