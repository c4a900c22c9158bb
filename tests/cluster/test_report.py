"""What a person and a script are told, whoever is alive."""

from __future__ import annotations

from pathlib import Path

import pytest

from Daddy.cluster.orchestrator import tenure
from Daddy.cluster.orchestrator.history import Entry
from Daddy.cluster.orchestrator.intent import Intent, write_intent
from Daddy.cluster.orchestrator.ledger import LedgerFile
from Daddy.cluster.orchestrator.records import (
    JobState,
    Mode,
    Observation,
    Policy,
    QueueJob,
    Snapshot,
    Unknown,
)
from Daddy.cluster.orchestrator.report import read_status
from Daddy.cluster.orchestrator.screen import show
from Daddy.core.clock import SystemClock
from Daddy.core.files import write_json
from Daddy.core.lease import Lease
from Daddy.core.paths import RunPaths

CLOCK = SystemClock()
POLICY = Policy(max_running=2, spares=2)
TOKENS = ("00000000000a", "00000000000b")


class Fixed:
    """A queue that looks as told."""

    name = "told"

    def __init__(self, seen: Observation) -> None:
        self._seen = seen
        self.looks = 0

    def snapshot(self) -> Observation:
        self.looks += 1
        return self._seen


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """Two slots that train, as the ledger and the leases tell it."""
    run = RunPaths(tmp_path)
    write_intent(run, Intent(Mode.RUN, 2, "local", "r1", "the free cartridge"), CLOCK.now())
    ledger = LedgerFile(run.ledger, 1)
    for number, token in enumerate(TOKENS):
        ledger.append(Entry("intent", 1.0, token, {"number": number + 1}))
        ledger.append(Entry("submitted", 1.0, token, {"job_id": 17 + number}))
        Lease.claim(run.slot(number).lease, {"token": token})
    return run


def rows(*states: JobState) -> Snapshot:
    jobs = [
        QueueJob(17 + n, TOKENS[n], state, state.name, node="n1") for n, state in enumerate(states)
    ]
    return Snapshot(CLOCK.now(), tuple(jobs))


FULL = rows(JobState.RUNNING, JobState.RUNNING)


def test_a_full_fleet_without_a_controller_is_degraded_and_nothing_is_written(
    run: RunPaths,
) -> None:
    before = run.ledger.read_bytes()
    told = read_status(run, Fixed(FULL), POLICY, CLOCK)
    assert (told["verdict"], told["exit_code"]) == ("degraded", 20)
    assert "2 of 2 slots train, but no controller is alive" in told["said"]
    assert run.ledger.read_bytes() == before
    assert not run.status.exists()


def test_a_full_fleet_with_its_controller_is_healthy(run: RunPaths) -> None:
    tenure.take(run, CLOCK)
    told = read_status(run, Fixed(FULL), POLICY, CLOCK)
    assert (told["verdict"], told["exit_code"]) == ("healthy", 0)


def test_an_empty_slot_is_degraded(run: RunPaths) -> None:
    tenure.take(run, CLOCK)
    told = read_status(run, Fixed(rows(JobState.RUNNING, JobState.ENDED)), POLICY, CLOCK)
    assert (told["exit_code"], told["said"]) == (20, "1 of 2 slots train")


def test_no_job_and_no_controller_is_down(run: RunPaths) -> None:
    told = read_status(run, Fixed(rows(JobState.ENDED, JobState.ENDED)), POLICY, CLOCK)
    assert (told["verdict"], told["exit_code"]) == ("down", 21)


def test_a_silent_queue_is_unknown_and_shows_what_was_last_known(run: RunPaths) -> None:
    known = read_status(run, Fixed(FULL), POLICY, CLOCK)
    write_json(run.status, {**known, "ts": CLOCK.now() - 600})
    told = read_status(run, Fixed(Unknown(CLOCK.now(), "Socket timed out")), POLICY, CLOCK)
    assert (told["verdict"], told["exit_code"]) == ("unknown", 22)
    assert [slot["job_id"] for slot in told["slots"]] == [17, 18]
    assert 599 <= told["age_s"] <= 660
    assert "Socket timed out" in told["said"]
    assert "last known 60" in told["said"]


def test_a_fresh_summary_of_a_living_controller_spares_the_queue(run: RunPaths) -> None:
    tenure.take(run, CLOCK)
    known = read_status(run, Fixed(FULL), POLICY, CLOCK)
    write_json(run.status, {**known, "ts": CLOCK.now()})
    queue = Fixed(FULL)
    assert read_status(run, queue, POLICY, CLOCK)["exit_code"] == 0
    assert queue.looks == 0


@pytest.mark.parametrize("mode", [Mode.STOPPED, Mode.DONE])
def test_what_was_asked_for_is_healthy_also_when_it_is_nothing(run: RunPaths, mode: Mode) -> None:
    write_intent(run, Intent(mode, 2, "local", "r1", "the free cartridge"), CLOCK.now())
    told = read_status(run, Fixed(rows(JobState.ENDED, JobState.ENDED)), POLICY, CLOCK)
    assert told["exit_code"] == 0


def test_the_screen_names_verdict_game_slots_and_reasons(run: RunPaths) -> None:
    tenure.take(run, CLOCK)
    told = read_status(run, Fixed(rows(JobState.RUNNING, JobState.PENDING)), POLICY, CLOCK)
    text = show("slim_run", told, CLOCK.now())
    assert text.splitlines()[0] == "◐ slim_run: 1 of 2 slots train"
    assert "the free cartridge" in text
    assert "slot 0      trains: job 17 on n1" in text
    assert "job 18 pending" in text
    assert "\x1b" not in text
