"""``status``: fast also without Slurm, plain in a pipe, with a matching exit code."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.control_files import DesiredRun, write_intent
from Daddy.cluster.orchestrator.controller_types import Mode
from Daddy.cluster.orchestrator.scheduler_factory import run_id
from Daddy.cluster.orchestrator.slurm_squeue import FIELDS, job_name
from Daddy.core.load_config import load_config
from tests.cluster.commands.conftest import Shim
from tests.cluster.conftest import Person
from tests.patience import PATIENCE_S

ON_SLURM = DesiredRun(Mode.RUN, 2, "slurm", "r", "x")
OVER = DesiredRun(Mode.STOPPED, 2, "local", "r", "x")


@pytest.fixture
def silent(person: Person, site: Shim) -> Person:
    """Provide a person whose slurmctld is frozen."""
    site("squeue", "exec sleep 3600")
    write_intent(person.run, ON_SLURM, 0.0)
    return person


def test_a_frozen_slurm_is_not_waited_for(silent: Person) -> None:
    told = silent.run_controller("status")
    write_intent(silent.run, OVER, 0.0)
    assert told.returncode == 22
    assert "the queue cannot be read" in told.stdout


def test_what_only_a_look_of_our_own_needs_is_not_loaded_for_a_fresh_summary() -> None:
    code = "import sys, Daddy.cluster.orchestrator.commands.status as _; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = {name.rpartition(".")[2] for name in told.stdout.split() if name.startswith("Daddy.")}
    assert "health_verdict" in ours
    assert not ours & {"plan", "reconcile", "scheduler_factory"}
    assert not ours & {"slurm_scheduler", "local_scheduler"}


def test_in_a_pipe_there_are_no_colours_and_no_trailing_blanks(person: Person) -> None:
    write_intent(person.run, OVER, 0.0)
    told = person.run_controller("status")
    assert told.returncode == 0
    assert "\x1b" not in told.stdout
    assert [line for line in told.stdout.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize(("variable", "coloured"), [("", True), ("1", False)])
def test_a_terminal_gets_colours_unless_no_color_is_set(
    person: Person, variable: str, coloured: bool
) -> None:
    write_intent(person.run, OVER, 0.0)
    text = in_a_terminal(person, {"NO_COLOR": variable} if variable else {})
    assert ("\x1b[1;32m" in text) is coloured
    assert "as asked" in text


def in_a_terminal(person: Person, env: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    module = "Daddy.cluster.orchestrator.run_controller"
    argv = [sys.executable, "-m", module, "status", "--config", str(person.config)]
    kept = {name: value for name, value in person.env.items() if name != "NO_COLOR"}
    env = {**kept, "TERM": "xterm-256color", **env}
    try:
        child = subprocess.Popen(argv, cwd=person.checkout, env=env, stdout=theirs)
        os.close(theirs)
        text = b""
        try:
            while chunk := os.read(ours, 65536):
                text += chunk
        except OSError:  # the other end is closed
            pass
        assert child.wait(PATIENCE_S) == 0
    finally:
        os.close(ours)
    return text.decode()


def test_a_removed_run_folder_is_looked_for_in_the_queue(person: Person, site: Shim) -> None:
    mark = run_id(load_config(person.config), person.run)
    token = "0" * 12
    fields = {"JobID": "17", "State": "RUNNING", "Name": job_name(mark, token)}
    row = "|".join(fields.get(name, "") for name in FIELDS) + "|"
    gone = person.config.with_name("cancelled")
    site("squeue", f"[ -e {gone} ] || echo '{row}'")
    site("scancel", f"touch {gone}")
    settings = json.loads(person.config.read_text())
    person.config.write_text(json.dumps({**settings, "controller": {"executor": "slurm"}}))
    told = person.status()
    assert told["exit_code"] == 20
    assert told["said"].startswith("1 job of this run is in the queue, and nothing is recorded")
    stopped = person.run_controller("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert "1 of its jobs are in the queue: they are cancelled" in stopped.stdout
    assert "nothing to stop" in person.run_controller("stop").stdout
    assert person.status()["exit_code"] == 21
    assert not person.run.root.exists()


def test_looking_does_not_change_anything(person: Person, site: Shim, tmp_path: Path) -> None:
    write_intent(person.run, ON_SLURM, 0.0)
    before = sorted(path.name for path in person.run.controller.rglob("*"))
    told = json.loads(person.run_controller("status", "--json").stdout)
    write_intent(person.run, OVER, 0.0)
    assert told["exit_code"] == 21
    asked = (tmp_path / "asked").read_text().split()
    assert asked[0] == "squeue"
    assert "sbatch" not in asked
    after = {path.name for path in person.run.controller.rglob("*")} - set(before)
    assert all(name == "calls" or name.endswith(".log") for name in after)


def test_plan_says_what_a_pass_would_do_and_does_nothing(person: Person) -> None:
    told = person.run_controller("plan")
    assert told.returncode == 0, told.stderr
    assert "this is the first plan of a new start" in told.stdout
    assert "would    submit 2 jobs: slots 0 and 1 are empty\n" in told.stdout
    assert told.stdout.count("would    ") == 1
    assert "next     pass in" in told.stdout
    assert not person.run.root.exists()


def test_watching_asks_the_queue_once_and_leaves_at_ctrl_c(
    person: Person, site: Shim, tmp_path: Path
) -> None:
    write_intent(person.run, ON_SLURM, 0.0)
    module = "Daddy.cluster.orchestrator.run_controller"
    argv = [sys.executable, "-m", module, "status", "--watch", "--json"]
    child = subprocess.Popen(
        [*argv, "--config", str(person.config)],
        cwd=person.checkout,
        env=person.env,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        told = [json.loads(child.stdout.readline()) for _ in range(3)]
        child.send_signal(signal.SIGINT)
        assert child.wait(PATIENCE_S) == 0
    finally:
        child.kill()
        child.wait()
    write_intent(person.run, OVER, 0.0)
    assert told[2]["ts"] > told[0]["ts"]
    assert (tmp_path / "asked").read_text().count("squeue") == 1
