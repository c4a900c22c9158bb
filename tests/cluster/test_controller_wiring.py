"""Tests the person's notify command, and the programs beside the controller."""

import sys
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.controller_wiring import build_controller, run_notify_command
from Daddy.cluster.release_build import Release
from Daddy.core.clock import SystemClock
from Daddy.core.lease import Lease
from Daddy.core.load_config import config_to_json, load_release_config
from Daddy.core.run_paths import RunPaths
from tests.cluster.conftest import config_of


@pytest.mark.parametrize("relay", [True, False])
def test_a_relay_runs_beside_the_controller_unless_the_frozen_configuration_says_no(
    tmp_path: Path, relay: bool
) -> None:
    settings = {"relay": relay, "executor": "local"}
    frozen = tmp_path / "frozen.json"
    frozen.write_bytes(config_to_json(config_of(tmp_path, controller=settings)))
    lease = Lease.acquire(RunPaths(tmp_path / "run").controller_lease, {"pid": 1})
    assert lease is not None
    release = Release("r", tmp_path / "r")
    config = load_release_config(frozen)
    controller = build_controller(config, release, lease, SystemClock(), children=True)
    assert ("relay" in controller.children.pids()) == relay


def command(tmp_path: Path, code: str) -> str:
    script = tmp_path / "a hook.py"
    script.write_text(code)
    return f"{sys.executable} '{script}' {tmp_path / 'heard'}"


HEAR = """
import os, sys
open(sys.argv[1], "w").write(os.environ["DADDY_KIND"] + ": " + sys.stdin.read())
"""


def test_the_text_reaches_the_command_on_its_standard_input(tmp_path: Path) -> None:
    assert run_notify_command(command(tmp_path, HEAR), "breaker", "five failures in a row") == ""
    assert (tmp_path / "heard").read_text() == "breaker: five failures in a row\n"


def test_without_a_command_nothing_happens() -> None:
    assert run_notify_command("", "breaker", "text") == ""
    assert run_notify_command("  ", "breaker", "text") == ""


def test_a_command_that_fails_is_told_and_costs_nothing(tmp_path: Path) -> None:
    said = run_notify_command(
        command(tmp_path, "import sys; sys.exit('no mail today')"), "breaker", "text"
    )
    assert "exit code 1" in said
    assert "no mail today" in said


def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    said = run_notify_command(
        command(tmp_path, "import time; time.sleep(60)"), "breaker", "text", timeout_s=0.5
    )
    assert "no answer within 0.5 s" in said


def test_a_command_that_is_not_there_or_cannot_be_read_is_told() -> None:
    assert "not installed" in run_notify_command("/nowhere/hook", "breaker", "text")
    assert "failed" in run_notify_command("'half a quote", "breaker", "text")
