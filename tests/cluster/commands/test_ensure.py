"""``ensure``: a controller lives if one is wanted, and only then."""

from __future__ import annotations

import json
import os
import signal

import pytest

from Daddy.cluster.orchestrator.intent import Intent, read_intent, write_intent
from Daddy.cluster.orchestrator.records import Mode
from Daddy.core.lease import read_lease
from tests.cluster.conftest import Person, small_config, until


def test_a_dead_controller_is_started_again_and_a_living_one_is_left_alone(
    person: Person,
) -> None:
    config = small_config(person.run.root, training={"max_runtime_seconds": 60})
    person.config.write_text(json.dumps(config))
    assert person.says("start").returncode == 0
    until(lambda: person.training == 2)
    first, asked = person.controller, read_intent(person.run)
    assert "a controller is alive" in person.says("ensure").stdout
    os.kill(first, signal.SIGKILL)
    said = person.says("ensure")
    assert said.returncode == 0, said.stderr
    assert person.controller != first
    assert f"controller started: pid {person.controller}" in said.stdout
    assert read_intent(person.run) == asked
    assert len(person.ledger("start")) == 1  # failures are forgiven by start alone
    os.kill(person.controller, signal.SIGKILL)
    assert person.says("stop", "--drain").returncode == 0
    assert "stopped, as asked" in person.says("ensure").stdout  # a stopped run is not revived
    view = read_lease(person.run.controller_lease)
    assert view is not None
    assert view.ended is not None


def test_without_a_run_there_is_nothing_to_ensure(person: Person) -> None:
    said = person.says("ensure")
    assert said.returncode == 0
    assert "no run was ever started" in said.stdout
    assert not person.run.root.exists()


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        (Mode.DRAIN, "a stop was said"),
        (Mode.STOPPED, "stopped, as asked"),
        (Mode.DONE, "the run is done"),
        (Mode.PAUSED, "paused until you say start (an administrator holds job 17)"),
    ],
)
def test_what_is_not_to_run_is_not_started(person: Person, mode: Mode, why: str) -> None:
    reason = "an administrator holds job 17" if mode is Mode.PAUSED else ""
    write_intent(person.run, Intent(mode, 2, "local", "r", "x", reason=reason), 0.0)
    said = person.says("ensure")
    write_intent(person.run, Intent(Mode.STOPPED, 2, "local", "r", "x"), 0.0)
    assert said.returncode == 0
    assert why in said.stdout
    assert not person.run.controller_lease.exists()


def test_a_release_that_is_gone_is_said(person: Person) -> None:
    write_intent(person.run, Intent(Mode.RUN, 2, "local", "gone", "x"), 0.0)
    said = person.says("ensure")
    write_intent(person.run, Intent(Mode.STOPPED, 2, "local", "gone", "x"), 0.0)
    assert said.returncode == 9
    assert "release gone is gone" in said.stderr


def test_the_lines_for_cron_and_systemd_name_this_config(person: Person) -> None:
    said = person.says("ensure", "--print-units")
    assert said.returncode == 0
    assert "*/5 * * * * cd " in said.stdout
    assert str(person.config) in said.stdout
    assert "~/.config/systemd/user/daddy-tiny.timer" in said.stdout
