"""``runs``: all runs of a person, found without a record of them."""

import json
from pathlib import Path

from Daddy.cluster.orchestrator.commands.runs import find_runs
from Daddy.cluster.orchestrator.control_files import DesiredRun, write_intent
from Daddy.cluster.orchestrator.controller_types import Mode
from Daddy.core.run_paths import RunPaths
from tests.cluster.conftest import Person

STOPPED = DesiredRun(Mode.STOPPED, 2, "local", "r", "x")


def test_each_run_is_a_line_with_its_state_and_folder(person: Person, tmp_path: Path) -> None:
    person.env["XDG_DATA_HOME"] = str(tmp_path / "data")
    assert (
        person.run_controller("runs").stdout
        == f"no run was ever started in {person.run.root.parent}\n"
    )
    other = RunPaths(person.run.root.parent / "other")
    write_intent(person.run, STOPPED, 0.0)
    write_intent(other, DesiredRun(Mode.DONE, 2, "local", "r", "x", "5 of 5 steps"), 0.0)
    damaged = RunPaths(person.run.root.parent / "damaged")
    damaged.intent.parent.mkdir(parents=True)
    damaged.intent.write_text("{")
    said = person.run_controller("runs")
    assert said.returncode == 0, said.stderr
    lines = dict(line.split(maxsplit=1) for line in said.stdout.splitlines())
    assert list(lines) == ["damaged", "other", "tiny"]
    assert "cannot be read" in lines["damaged"]
    assert lines["other"].startswith("the run finished")
    assert lines["tiny"].startswith("the run was stopped")
    assert lines["tiny"].endswith(f"({person.run.root})")


def test_a_run_elsewhere_is_found_by_its_mirror(tmp_path: Path) -> None:
    here, there = RunPaths(tmp_path / "runs" / "a"), RunPaths(tmp_path / "scratch" / "b")
    write_intent(there, STOPPED, 0.0)
    cards = {"b": str(there.root), "gone": str(tmp_path / "gone"), "odd": 7}
    for name, source in cards.items():
        card = tmp_path / "mirrors" / name / "MIRROR.json"
        card.parent.mkdir(parents=True)
        card.write_text(json.dumps({"source": source}))
    assert find_runs(here, tmp_path / "mirrors") == [there.root.resolve()]
