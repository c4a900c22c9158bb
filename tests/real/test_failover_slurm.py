"""Tests failover on a real Slurm: without a controller running jobs submit their successors.

Here the controller ends by a signal; ``tests/cluster/test_sidecar.py`` tests a killed controller on
another host, which takes 90 s to be noticed, with a simulated clock. A controller that cannot read
the queue is one whose squeue fails; it counts as blind after two seconds here.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.control_files import read_answered, read_probe
from Daddy.cluster.orchestrator.decisions.controller_failover import GIVEN_UP
from Daddy.core.lease import read_lease
from tests.cluster.conftest import copied_checkout
from tests.patience import PATIENCE_S
from tests.real.conftest import Cluster, Student, student_of, until

SHORTER = (
    ("decisions/controller_failover.py", "BLIND_S = 60.0", "BLIND_S = 2.0"),
    ("commands/daemon.py", "_ASK_S = 30.0", "_ASK_S = 1.0"),
)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkout whose controllers are blind after two seconds, not after sixty."""
    folder = copied_checkout(tmp_path_factory.mktemp("checkout"))
    for name, usual, shorter in SHORTER:
        path = folder / "Daddy" / "cluster" / "orchestrator" / name
        assert usual in path.read_text()
        path.write_text(path.read_text().replace(usual, shorter))
    return folder


def blinding(student: Student) -> Path:
    """Return a file: squeue fails for the processes whose ids are its lines."""
    real, folder = shutil.which("squeue", path=student.env["PATH"]), student.config.parent / "bin"
    folder.mkdir()
    script = f'grep -qx $PPID {folder}/blind && echo "squeue: error: blind" >&2 && exit 1'
    (folder / "squeue").write_text(f'#!/bin/sh\n{script}\nexec {real} "$@"\n')
    (folder / "squeue").chmod(0o755)
    (folder / "blind").touch()
    student.env["PATH"] = f"{folder}:{student.env['PATH']}"
    return folder / "blind"


def lives(pid: int) -> bool:
    """Return True for a process that runs."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def says_blind(student: Student) -> bool:
    view = read_lease(student.run.controller_lease)
    return view is not None and "blind_s" in view.beat


def cron(student: Student, line: str) -> str:
    """Run the line as cron does, after a kill of the controller; return its output."""
    os.kill(student.controller, signal.SIGKILL)
    log = student.run.logs / "ensure.log"
    log.unlink(missing_ok=True)
    env = {"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"], "SHELL": "/bin/sh"}
    command = line.removeprefix("*/5 * * * * ").replace("\\%", "%")
    subprocess.run(["/bin/sh", "-c", command], env=env, check=False, timeout=PATIENCE_S)
    return log.read_text()


@pytest.fixture(scope="module")
def no_failover(
    shared_cluster: Cluster, checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Student, Path]]:
    """Start a run whose jobs make no passes; return its user and the file of blind processes."""
    with student_of(shared_cluster, checkout, tmp_path_factory.mktemp("run")) as student:
        blind = blinding(student)
        student.configure(900, time_limit="0:15:00", controller={"failover": False})
        assert student.run_controller("start").returncode == 0
        assert until(lambda: student.training == 2, 60)
        yield student, blind


@pytest.mark.timeout(900)
def test_the_crontab_line_starts_a_controller_that_reads_the_queue(
    no_failover: tuple[Student, Path],
) -> None:
    student, _ = no_failover
    printed = student.run_controller("ensure", "--print-units").stdout
    (line,) = (line for line in printed.splitlines() if line.startswith("*/5 "))
    assert "controller started" in cron(student, line)
    assert until(lambda: student.status()["exit_code"] == 0, 60)
    intent = json.loads(student.run.intent.read_text())
    del intent["environment"]  # the release before kept none
    student.run.intent.write_text(json.dumps(intent))
    term = read_lease(student.run.controller_lease).term  # type: ignore[union-attr]
    said = cron(student, line)
    assert "the queue cannot be read" in said
    assert "type `run_controller start` in your shell" in said
    view = read_lease(student.run.controller_lease)
    assert view is not None
    assert (view.term, view.ended) == (term, "its process is gone")


@pytest.mark.timeout(900)
def test_beside_a_blind_controller_each_command_puts_one_that_reads_the_queue(
    no_failover: tuple[Student, Path],
) -> None:
    student, blind = no_failover
    assert student.run_controller("start").returncode == 0
    assert until(lambda: student.training == 2, 60)
    daemons = []
    for command, answer in (("ensure", "controller started"), ("start", "another one takes over")):
        daemons.append(student.controller)
        blind.write_text("\n".join(map(str, daemons)))
        assert until(lambda: says_blind(student), 60)
        assert "cannot read the queue" in student.status()["said"]
        done = student.run_controller(command)
        assert (done.returncode, answer in done.stdout) == (0, True), done.stdout + done.stderr
        assert student.controller not in daemons
        view = read_lease(student.run.controller_lease)
        assert view is not None
        assert not view.holder["passing"]
        ends = (student.run.controller_lease / f"term-{view.term - 1:06d}.end.json").read_text()
        assert GIVEN_UP in ends
    daemons.append(student.controller)
    blind.write_text("\n".join(map(str, daemons)))
    assert until(lambda: says_blind(student), 60)
    done = student.run_controller("stop")
    assert (done.returncode, "no job is left" in done.stdout) == (0, True), done.stderr
    assert until(lambda: not any(map(lives, daemons)), 30)


@pytest.mark.timeout(1800)
def test_jobs_go_on_beside_a_blind_controller_until_it_reads_the_queue_again_and_without_any(
    cluster: Cluster, student: Student
) -> None:
    """1. The controller is blind. 2. It reads the queue again. 3. It ends, and jobs hand over."""
    blind = blinding(student)
    student.configure(max_runtime_s=25, time_limit="0:01:00", max_running=2)
    assert student.run_controller("start").returncode == 0
    assert until(lambda: student.training == 2, 60)
    first = student.controller
    blind.write_text(str(first))
    assert until(lambda: student.controller != first, 90)
    assert read_answered(student.run) is not None
    last = max(entry["number"] for entry in student.ledger("intent"))
    assert until(lambda: max(entry["number"] for entry in student.ledger("intent")) > last, 120)
    log = student.run.logs / "controller.log"
    assert until(lambda: "waiting without the lease" in log.read_text(), 60)
    blind.write_text("")
    assert until(lambda: student.controller == first, 60)

    os.kill(first, signal.SIGTERM)
    assert until(lambda: not lives(first), 30)
    last = max(entry["number"] for entry in student.ledger("intent"))
    assert until(
        lambda: sum(1 for entry in student.ledger("intent") if entry["number"] > last) >= 3, 120
    ), (student.run.logs / "failover.log").read_text()
    probe = read_probe(student.run)
    assert probe is not None
    assert probe.may_submit
    assert "test-only" in probe.why
    tokens = cluster.out("squeue", "--noheader", "--states=all", "--format=%k").splitlines()
    ours = [token for token in tokens if "daddy/tiny-" in token]
    assert len(ours) == len(set(ours))
    handovers = len(student.event_summary.handovers())
    assert until(lambda: len(student.event_summary.handovers()) >= handovers + 2, 90)

    assert student.run_controller("start").returncode == 0
    view = read_lease(student.run.controller_lease)
    assert view is not None
    assert not view.holder["passing"]
    assert until(lambda: student.status()["exit_code"] == 0, 30)
