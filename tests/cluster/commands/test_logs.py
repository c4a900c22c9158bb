"""``logs`` and ``attach``: output of jobs, by slot instead of by number."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.commands.logs import LogFollower
from Daddy.cluster.orchestrator.control_files import DesiredRun, write_intent
from Daddy.cluster.orchestrator.controller_types import Mode
from Daddy.cluster.orchestrator.ledger_file import LedgerFile
from Daddy.cluster.orchestrator.ledger_replay import LedgerEntry
from Daddy.core.lease import Lease
from tests.cluster.conftest import Person, until
from tests.patience import PATIENCE_S

RUNNING = DesiredRun(Mode.RUN, 2, "local", "r", "x")
OVER = DesiredRun(Mode.STOPPED, 2, "local", "r", "x")


@pytest.fixture
def fleet(person: Person) -> Iterator[list[Lease]]:
    """Provide slots 0 and 1, held by jobs 7 and 8 with some output."""
    run = person.run
    run.logs.mkdir(parents=True)
    write_intent(run, RUNNING, 0.0)
    leases = []
    for slot in (0, 1):
        job = 7 + slot
        (run.logs / f"slurm-{job}.out").write_text(f"job {job} begins\n")
        lease = Lease.acquire(run.slot(slot).lease, {"token": f"{job:012x}", "job_id": str(job)})
        assert lease is not None
        leases.append(lease)
    (run.logs / "controller.log").write_text("the controller's line\n")
    yield leases
    write_intent(run, OVER, 0.0)


def listening(person: Person, *argv: str) -> tuple[subprocess.Popen[str], list[str]]:
    """Start a command that follows output; return it and the list of its lines."""
    module = "Daddy.cluster.orchestrator.run_controller"
    child = subprocess.Popen(
        [sys.executable, "-m", module, *argv, "--config", str(person.config)],
        cwd=person.checkout,
        env={**person.env, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    lines: list[str] = []

    def collect() -> None:
        assert child.stdout is not None
        lines.extend(line.rstrip("\n") for line in iter(child.stdout.readline, ""))

    threading.Thread(target=collect, daemon=True).start()
    return child, lines


def test_logs_show_the_end_of_the_controller_s_and_every_slot_s(
    person: Person, fleet: list[Lease]
) -> None:
    said = person.run_controller("logs")
    assert said.returncode == 0, said.stderr
    assert said.stdout.splitlines() == [
        "── controller ──",
        "the controller's line",
        "",
        "── slot 0, job 7 ──",
        "job 7 begins",
        "",
        "── slot 1, job 8 ──",
        "job 8 begins",
    ]
    only = person.run_controller("logs", "--slot", "1", "--lines", "1")
    assert only.stdout.splitlines() == ["── slot 1, job 8 ──", "job 8 begins"]


def test_logs_go_on_when_told_so_and_end_at_ctrl_c(person: Person, fleet: list[Lease]) -> None:
    child, lines = listening(person, "logs", "-f", "--slot", "0")
    try:
        until(lambda: "job 7 begins" in lines)
        with (person.run.logs / "slurm-7.err").open("a") as stream:
            stream.write("a warning\n")
        until(lambda: lines[-2:] == ["── slot 0, job 7, errors ──", "a warning"])
        child.send_signal(signal.SIGINT)
        assert child.wait(PATIENCE_S) == 0
    finally:
        child.kill()
        child.wait()


def test_attach_stays_with_a_slot_from_job_to_job_until_the_run_is_over(
    person: Person, fleet: list[Lease]
) -> None:
    child, lines = listening(person, "attach", "--slot", "0")
    try:
        until(lambda: "job 7 begins" in lines)
        fleet[0].release("wall time")
        (person.run.logs / "slurm-9.out").write_text("job 9 goes on\n")
        assert Lease.acquire(person.run.slot(0).lease, {"token": "x", "job_id": "9"}) is not None
        until(lambda: lines[-2:] == ["── slot 0, job 9 ──", "job 9 goes on"])
        write_intent(person.run, OVER, 0.0)
        assert child.wait(PATIENCE_S) == 0
        until(lambda: lines[-1] == "the run is stopped")
    finally:
        child.kill()
        child.wait()


def test_a_slot_that_is_not_there_is_a_usage_error(person: Person, fleet: list[Lease]) -> None:
    said = person.run_controller("logs", "--slot", "2")
    assert said.returncode == 2
    assert "choose a slot from 0 to 1" in said.stderr


def ended(person: Person, *jobs: tuple[int, int | None, str, str]) -> None:
    """Write ends of jobs (id, slot, outcome, reason) into the ledger, and a line of errors each."""
    ledger = LedgerFile(person.run.ledger, 1)
    for job, slot, outcome, reason in jobs:
        token, ts = f"{job:012x}", float(job)
        facts: dict[str, dict[str, object]] = {
            "intent": {"number": job},
            "submitted": {"job_id": job},
            "started": {"started_ts": ts, "node": "n1"},
            "claimed": {"slot": slot, "term": 1},
            "ended": {"outcome": outcome, "reason": reason},
        }
        for kind, data in facts.items():
            if kind != "claimed" or slot is not None:
                when = ts + 41 if kind == "ended" else ts
                ledger.append(LedgerEntry(kind, when, token, data))
        (person.run.logs / f"slurm-{job}.err").write_text(f"begins\n{job} \x1b[31mfails\n\n")


def test_a_job_that_failed_before_it_claimed_a_slot_is_shown_too(
    person: Person, fleet: list[Lease]
) -> None:
    ended(person, (20, None, "crashed", "exit code 127"), (21, None, "crashed", "exit code 127"))
    said = person.run_controller("logs")
    assert "── job 21, which failed before it claimed a slot, errors ──\nbegins\n21 " in said.stdout
    assert "job 20" not in said.stdout
    ended(person, (22, 0, "drained", "wall time"))
    assert "before it claimed" not in person.run_controller("logs").stdout


def test_the_output_of_one_job_is_found_by_its_number(person: Person, fleet: list[Lease]) -> None:
    ended(person, (20, None, "crashed", "exit code 127"))
    said = person.run_controller("logs", "--job", "20", "--lines", "3")
    assert said.stdout.splitlines()[:2] == ["── job 20, errors ──", "begins"]
    unknown = person.run_controller("logs", "--job", "99")
    assert unknown.returncode == 9
    assert "job 99 has no output" in unknown.stderr
    assert "logs --ended" in unknown.stderr


def test_ended_jobs_are_listed_with_reason_node_memory_and_last_error(
    person: Person, fleet: list[Lease]
) -> None:
    assert person.run_controller("logs", "--failed").stdout == "no job of the run has failed yet\n"
    ended(
        person,
        (20, 1, "drained", "wall time"),
        (21, 0, "crashed", "out of memory"),
        (22, None, "crashed", "exit code 127"),
    )
    said = person.run_controller("logs", "--ended").stdout.splitlines()
    assert [line.split("  ", 1)[1] for line in said if not line.startswith(" ")] == [
        "job 20, slot 1, ran 41 s on n1: drained: wall time",
        "job 21, slot 0, ran 41 s on n1: crashed: out of memory",
        "job 22, no slot, ran 41 s on n1: crashed: exit code 127",
    ]
    assert said.count("    memory: unknown (no accounting of this job)") == 3
    assert "    last line of errors: 21 ?[31mfails" in said
    failed = person.run_controller("logs", "--failed", "--lines", "1").stdout
    assert "job 22" in failed
    assert "job 20" not in failed
    assert "job 21" not in failed


def test_before_any_start_there_are_no_logs(person: Person) -> None:
    said = person.run_controller("logs")
    assert said.returncode == 9
    assert "type `run_controller start` first" in said.stderr


def test_the_first_look_shows_the_last_lines_with_a_heading(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\nthree\nhalf")
    follower = LogFollower(lambda: {"a": tmp_path / "a", "gone": tmp_path / "b"}, last=2)
    assert list(follower.read_first()) == ["── a ──", "two", "three"]
    with (tmp_path / "a").open("a") as stream:
        stream.write(" a line\nnext\n")
    assert list(follower.read_added()) == ["half a line", "next"]


def test_a_new_file_is_read_from_its_beginning_under_its_own_heading(tmp_path: Path) -> None:
    sources = {"job 1": tmp_path / "1"}
    (tmp_path / "1").write_text("old\n")
    follower = LogFollower(lambda: sources, last=5)
    assert list(follower.read_first()) == ["── job 1 ──", "old"]
    sources = {"job 2": tmp_path / "2"}
    (tmp_path / "2").write_text("begun\n")
    assert list(follower.read_added()) == ["", "── job 2 ──", "begun"]
    assert list(follower.read_added()) == []


def test_a_file_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("a long first text\n")
    follower = LogFollower(lambda: {"a": path}, last=5)
    list(follower.read_first())
    path.write_text("new\n")
    assert list(follower.read_added()) == ["new"]


def test_bytes_that_are_no_text_do_not_stop_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff\xfe\n")
    assert len(list(LogFollower(lambda: {"a": tmp_path / "a"}, last=5).read_first())) == 2
