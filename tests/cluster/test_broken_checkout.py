"""A checkout or a configuration that breaks while a run goes on: its own release answers."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.control_files import read_intent
from Daddy.cluster.orchestrator.controller_types import Mode
from tests.cluster.conftest import Person, copied_checkout, small_config, until


@pytest.fixture
def owner(person: Person, tmp_path: Path) -> Person:
    """Provide a person with a checkout of their own, whose run trains."""
    settings = small_config(person.run.root, training={"max_runtime_seconds": 60})
    person.config.write_text(json.dumps(settings))
    checkout = copied_checkout(tmp_path / "own")
    owner = replace(person, checkout=checkout, env={**person.env, "PYTHONPATH": str(checkout)})
    said = owner.run_controller("start")
    assert said.returncode == 0, said.stderr
    return owner


def break_entry(owner: Person) -> None:
    """Leave a merge conflict in a module that the entry itself imports."""
    (owner.checkout / "Daddy" / "core" / "errors.py").write_text("<<<<<<< HEAD\n")


def break_commands(owner: Person) -> None:
    """Remove the folder of the commands, as an update that was interrupted does."""
    commands = owner.checkout / "Daddy" / "cluster" / "orchestrator" / "commands"
    commands.rename(commands.with_name("gone"))


def break_configuration(owner: Person) -> None:
    """Leave a comma too many, and a key that does not exist."""
    text = owner.config.read_text().replace('"run_name"', '"no_such_key": 1,, "run_name"')
    owner.config.write_text(text)


@pytest.mark.parametrize("breaks", [break_entry, break_commands, break_configuration])
def test_the_runs_own_release_answers_and_stops_the_run(
    owner: Person, breaks: Callable[[Person], None]
) -> None:
    text = owner.config.read_text()
    breaks(owner)
    until(lambda: owner.training == 2)
    assert owner.status()["exit_code"] == 0
    said = owner.run_controller("ensure")
    assert said.returncode == 0, said.stderr
    assert "a controller is alive" in said.stdout
    assert "the run's own release" in said.stderr
    assert "── controller ──" in owner.run_controller("logs").stdout
    refused = owner.run_controller("start")
    assert refused.returncode != 0, "only a whole checkout can start"
    stopped = owner.run_controller("stop")
    owner.config.write_text(text)
    assert stopped.returncode == 0, stopped.stderr
    assert "stopped: no job is left" in stopped.stdout
    intent = read_intent(owner.run)
    assert intent is not None
    assert intent.mode is Mode.STOPPED


def test_without_a_release_a_broken_configuration_stays_an_error(person: Person) -> None:
    break_configuration(person)
    said = person.run_controller("status")
    assert said.returncode == 3
    assert "Traceback" not in said.stderr
