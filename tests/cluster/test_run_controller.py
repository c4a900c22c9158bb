"""The commands that a person types, against real processes on the local queue."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.control_files import DesiredRun, read_intent, write_intent
from Daddy.cluster.orchestrator.controller_types import Mode
from Daddy.core.lease import Lease, read_lease
from tests.cluster.conftest import ROOT, Person, small_config, until
from tests.patience import PATIENCE_S


def test_start_fills_the_slots_hands_them_over_and_stop_drains(person: Person) -> None:
    said = person.run_controller("start")
    assert said.returncode == 0, said.stderr
    assert "2 slots on local, playing cartpole" in said.stdout
    assert Path(f"/proc/{person.controller}/cwd").resolve() == person.run.root.resolve()
    (release,) = [path for path in person.run.releases.iterdir() if not path.name.startswith(".")]
    environ = Path(f"/proc/{person.controller}/environ").read_bytes().split(b"\0")
    assert f"PYTHONPATH={release}".encode() in environ
    until(lambda: len(person.event_summary.handovers()) >= 4, 40)
    assert person.status()["exit_code"] in (0, 20)  # between two holders a slot may be seen empty
    stopped = person.run_controller("stop")
    assert stopped.returncode == 0, stopped.stderr
    fleet = person.event_summary
    claimed = [attempt for attempt in fleet.attempts.values() if attempt.slot is not None]
    assert {attempt.facts_of("goodbye")["exit_code"] for attempt in claimed} == {10}
    after = person.status()
    assert after["queue"] == {**after["queue"], "running": 0, "pending": 0}
    assert after["exit_code"] == 0
    assert after["said"].startswith("the run was stopped at ")


def test_start_replaces_a_killed_controller_also_without_its_ledger_and_stop_needs_none(
    person: Person,
) -> None:
    configure(person)
    assert person.run_controller("start").returncode == 0
    until(lambda: person.training == 2 and len(person.status_in_process["waiting"]) == 2)
    before = {slot["job_id"] for slot in person.status()["slots"]}
    asked_for = person.ledger("intent")
    os.kill(person.controller, signal.SIGKILL)
    until(lambda: person.status_in_process["exit_code"] == 20)
    assert "no controller is alive" in person.status()["said"]
    assert person.run_controller("start").returncode == 0
    time.sleep(2.5)  # several passes in which a doubled job would show
    check_jobs(person, before)
    assert person.ledger("intent") == asked_for
    # a controller that lost its ledger finds its jobs again
    os.kill(person.controller, signal.SIGKILL)
    person.run.ledger.unlink()
    person.run.status.write_text("{")
    assert person.run_controller("start").returncode == 0
    until(lambda: person.training == 2)
    time.sleep(2.5)
    check_jobs(person, before)
    assert [entry for entry in person.ledger("submitted") if entry["job_id"] not in before] != []
    # stop works without a controller, and nothing comes back
    os.kill(person.controller, signal.SIGKILL)
    stopped = person.run_controller("stop")
    assert stopped.returncode == 0, stopped.stderr
    seen = person.status()
    assert (seen["mode"], seen["queue"]["running"], seen["queue"]["pending"]) == ("stopped", 0, 0)


def configure(person: Person, **training: object) -> None:
    """Let the jobs live long, and make no passes."""
    config = small_config(
        person.run.root,
        training={"max_runtime_seconds": 900, **training},
        slurm={"time_limit": "0:20:00"},
        controller={"failover": False},
    )
    person.config.write_text(json.dumps(config))


def wants_one_slot(person: Person, **training: object) -> None:
    configure(person, **training)
    config = json.loads(person.config.read_text())
    config["slurm"]["max_running"] = 1
    person.config.write_text(json.dumps(config))


def check_jobs(person: Person, same: set[int]) -> None:
    """Assert that the slots' jobs are the same, each with one successor."""
    seen = person.status()
    assert {slot["job_id"] for slot in seen["slots"]} == same
    assert (seen["queue"]["running"], seen["queue"]["pending"]) == (2, 2)


def test_a_killed_learner_is_replaced_in_its_slot(person: Person) -> None:
    configure(person)
    person.run_controller("start")
    until(lambda: person.training == 2)
    victim = person.status()["slots"][0]
    step = victim["checkpoint_step"]
    start = json.loads((person.run.queue / f"{victim['job_id']:06d}" / "start.json").read_text())
    os.kill(start["pid"], signal.SIGKILL)
    until(lambda: person.status_in_process["slots"][0]["job_id"] not in (victim["job_id"], None))
    until(lambda: person.training == 2)
    assert person.status()["slots"][1]["term"] == 1  # the healthy neighbour was left alone
    assert person.status()["slots"][0]["checkpoint_step"] >= step
    reasons = [end["outcome"] for end in person.ledger("ended")]
    assert reasons == ["crashed"]


def test_a_run_whose_rule_is_gone_is_looked_at_and_stopped_and_not_started(person: Person) -> None:
    wants_one_slot(person)
    assert person.run_controller("start").returncode == 0
    changed = small_config(person.run.root) | {"collaboration": {"rule": "elastic"}}
    person.config.write_text(json.dumps(changed))
    until(lambda: person.training == 1)
    again = person.run_controller("start")
    assert again.returncode == 3, again.stderr
    assert "run_controller stop" in again.stderr
    for argv in (["plan"], ["logs"], ["ensure"]):
        assert person.run_controller(*argv).returncode == 0, argv
    stopped = person.run_controller("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert "stopped: no job is left" in stopped.stdout
    assert person.status()["said"].startswith("the run was stopped at ")


def test_a_start_beside_a_stop_gets_a_controller_of_its_own(person: Person) -> None:
    """`stop` became the controller, when `start` changed the intent that it read before."""
    wants_one_slot(person, max_runtime_seconds=600)
    assert person.run_controller("start").returncode == 0
    until(lambda: person.training == 1)
    wanted = read_intent(person.run)
    view = read_lease(person.run.slot(0).lease)
    assert wanted is not None
    assert view is not None
    learner = int(view.holder["pid"])
    os.kill(learner, signal.SIGSTOP)  # so the drain cannot end first
    os.kill(person.controller, signal.SIGKILL)
    module = "Daddy.cluster.orchestrator.run_controller"
    stop = subprocess.Popen(
        [sys.executable, "-m", module, "stop", "--config", str(person.config)],
        cwd=person.checkout, env=person.env, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        until(lambda: person.controller == stop.pid)
        write_intent(person.run, wanted, 0.0)
        said, _ = stop.communicate(timeout=PATIENCE_S)
    finally:
        os.kill(learner, signal.SIGCONT)
    assert stop.returncode == 0
    assert "start was typed meanwhile: the run goes on" in said
    assert person.controller != stop.pid
    assert person.status()["controller"]["alive"]


def test_stop_on_another_login_host_is_carried_out_by_the_controller_there(person: Person) -> None:
    write_intent(person.run, DesiredRun(Mode.RUN, 2, "local", "r", "cartpole"), 0.0)
    there = Lease.acquire(
        person.run.controller_lease, {"host": "login-2", "pid": 1, "created": 1.0}
    )
    assert there is not None
    ended = threading.Event()

    def control() -> None:
        """Act as a controller on another host: beat, and follow the intent."""
        while not ended.wait(0.2):
            there.beat()
            intent = read_intent(person.run)
            if intent is not None and intent.mode is Mode.DRAIN:
                ended.wait(3.0)
                write_intent(person.run, replace(intent, mode=Mode.STOPPED), 0.0)
                there.release("stopped")
                return

    controller = threading.Thread(target=control)
    controller.start()
    try:
        stopped = person.run_controller("stop")
    finally:
        ended.set()
        controller.join()
    assert stopped.returncode == 0, stopped.stderr
    assert "no job is left" in stopped.stdout


def test_a_controller_in_the_foreground_leaves_at_ctrl_c_and_the_jobs_go_on(person: Person) -> None:
    wants_one_slot(person)
    module = "Daddy.cluster.orchestrator.run_controller"
    terminal = subprocess.Popen(
        [sys.executable, "-m", module, "start", "--foreground", "--config", str(person.config)],
        cwd=person.checkout,
        env=person.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    until(lambda: person.run.intent.exists() and person.training == 1)
    os.killpg(terminal.pid, signal.SIGINT)  # as a terminal does it: to everything in the group
    told, _ = terminal.communicate(timeout=PATIENCE_S)
    assert terminal.returncode == 0
    assert "the jobs go on" in told
    seen = person.status()
    assert (seen["queue"]["running"], seen["exit_code"]) == (1, 20)


def test_dry_run_prints_the_script_and_touches_nothing(person: Person) -> None:
    said = person.run_controller(
        "start", "--dry-run", "--partition", "gpu-x", "--ddp-world-size", "3"
    )
    assert said.returncode == 0, said.stderr
    assert "submit 3 jobs for 3 slots" in said.stdout
    assert "#SBATCH --partition=gpu-x" in said.stdout
    assert not person.run.root.exists()


def test_reaching_total_steps_ends_the_run_and_says_how_to_go_on(person: Person) -> None:
    wants_one_slot(person, total_steps=1000)
    person.run_controller("start")
    until(lambda: person.training == 1)
    head = person.run.shared_weights / "HEAD.json"
    head.parent.mkdir(exist_ok=True)
    head.write_text(json.dumps({"fleet_steps": 1000}))
    until(
        lambda: (
            person.status_in_process["mode"] == "done"
            and not person.status_in_process["controller"]["alive"]
        )
    )
    seen = person.status()
    assert seen["exit_code"] == 0
    assert "1,000 of 1,000 steps: to go on raise training.total_steps" in seen["said"]
    head.unlink()


def test_status_before_any_start_says_so(person: Person) -> None:
    said = person.run_controller("status")
    assert said.returncode == 21
    assert "no run was ever started here" in said.stdout


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"slurm": {"max_runing": 4}}, 3, "slurm.max_running"),
        (
            {"training": {"workload": "pokemon_red", "rom": "/nowhere/PokemonRed.gb"}},
            7,
            "cannot read the ROM",
        ),
        ({"controller": {"executor": "slurm"}}, 4, "sbatch"),
    ],
)
def test_a_wrong_setting_is_told_once_with_its_exit_code(
    person: Person, change: dict, code: int, words: str
) -> None:
    person.config.write_text(json.dumps(small_config(person.run.root, **change)))
    person.env["PATH"] = str(Path(sys.executable).parent)
    said = person.run_controller("start")
    assert said.returncode == code
    assert words in said.stderr
    assert "what to do" in said.stderr
    assert "Traceback" not in said.stderr


def test_a_run_directory_that_cannot_be_written_is_exit_nine(person: Person) -> None:
    person.run.root.parent.mkdir()
    person.run.root.write_text("a file where a folder should be")
    said = person.run_controller("start")
    assert said.returncode == 9
    assert str(person.run.root) in said.stderr
    person.run.root.unlink()


def test_a_slurm_run_without_a_rom_is_refused_unless_the_cartridge_is_meant(
    person: Person, tmp_path
) -> None:
    (tmp_path / "bin").mkdir()
    sbatch = tmp_path / "bin" / "sbatch"  # found by name alone: nothing is submitted here
    sbatch.write_text("#!/bin/sh\nexit 1\n")
    sbatch.chmod(0o755)
    person.env["PATH"] = f"{sbatch.parent}:{person.env['PATH']}"
    changes = {"training": {"workload": "pokemon_red"}, "controller": {"executor": "auto"}}
    person.config.write_text(json.dumps(small_config(person.run.root, **changes)))
    refused = person.run_controller("start", "--dry-run")
    assert refused.returncode == 7
    assert "--cartridge" in refused.stderr
    meant = person.run_controller("start", "--dry-run", "--cartridge")
    assert meant.returncode == 0
    assert "the free cartridge" in meant.stdout


def test_help_names_the_flags_of_the_guide() -> None:
    module = "Daddy.cluster.orchestrator.run_controller"
    told = subprocess.run(
        [sys.executable, "-m", module, "start", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    for flag in (
        "--config",
        "--partition",
        "--ddp-world-size",
        "--dry-run",
        "--site",
        "--verbose",
        "--quiet",
    ):
        assert flag in told.stdout


def test_ddp_world_size_of_zero_is_a_usage_error(person: Person) -> None:
    said = person.run_controller("start", "--ddp-world-size", "0")
    assert said.returncode == 2
    assert "--ddp-world-size: '0' is not a whole number from 1 to 64" in said.stderr
