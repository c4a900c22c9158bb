"""The status record, with and without a controller, a scheduler and readable files."""

import os
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from Daddy.cluster.orchestrator import controller_lease
from Daddy.cluster.orchestrator.commands.plan import make_summary
from Daddy.cluster.orchestrator.commands.status import read_status
from Daddy.cluster.orchestrator.control_files import DesiredRun, write_intent
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import (
    JobState,
    Mode,
    QueueJob,
    QueueReading,
    Snapshot,
    UnknownQueue,
)
from Daddy.cluster.orchestrator.ledger_file import LedgerFile
from Daddy.cluster.orchestrator.ledger_replay import LedgerEntry
from Daddy.core.atomic_files import read_json, write_json
from Daddy.core.clock import SystemClock
from Daddy.core.lease import Lease
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config
from Daddy.core.shared_weights_paths import SharedPaths
from tests.components import small_disk

CLOCK = SystemClock()
POLICY = ControllerPolicy(max_running=2, spares=2)
TOKENS = ("00000000000a", "00000000000b")


class Fixed:
    """Returns one fixed listing and counts the calls."""

    def __init__(self, seen: QueueReading) -> None:
        self._seen = seen
        self.looks = 0

    def snapshot(self) -> QueueReading:
        self.looks += 1
        return self._seen


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """Provide two training slots, by ledger and leases."""
    return training_run(tmp_path)


def training_run(folder: Path) -> RunPaths:
    run = RunPaths(folder)
    write_intent(run, DesiredRun(Mode.RUN, 2, "local", "r1", "the free cartridge"), CLOCK.now())
    ledger = LedgerFile(run.ledger, 1)
    for number, token in enumerate(TOKENS):
        ledger.append(LedgerEntry("intent", 1.0, token, {"number": number + 1}))
        ledger.append(LedgerEntry("submitted", 1.0, token, {"job_id": 17 + number}))
        lease = Lease.acquire(run.slot(number).lease, {"token": token})
        lease.beat({"steps_per_second": 120.5})
    return run


def rows(*states: JobState) -> Snapshot:
    jobs = [
        QueueJob(17 + n, TOKENS[n], state, state.name, node="n1") for n, state in enumerate(states)
    ]
    return Snapshot(CLOCK.now(), tuple(jobs))


def told_by(run: RunPaths, queue: Fixed) -> dict[str, Any]:
    config = Config.model_validate({"run_dir": str(run.root)})

    def summarise(*known: Any) -> dict[str, Any]:
        return make_summary(run, queue.snapshot(), POLICY, CLOCK, *known)

    return read_status(run, config, summarise, CLOCK)


FULL = rows(JobState.RUNNING, JobState.RUNNING)


def test_a_full_fleet_without_a_controller_is_degraded_and_nothing_is_written(
    run: RunPaths,
) -> None:
    before = run.ledger.read_bytes()
    told = told_by(run, Fixed(FULL))
    assert (told["verdict"], told["exit_code"]) == ("degraded", 20)
    assert "2 of 2 slots train, but no controller is alive" in told["said"]
    assert run.ledger.read_bytes() == before
    assert not run.status.exists()


def test_a_full_fleet_with_its_controller_is_healthy(run: RunPaths) -> None:
    controller_lease.become_controller(run, CLOCK)
    told = told_by(run, Fixed(FULL))
    assert (told["verdict"], told["exit_code"]) == ("healthy", 0)


def test_a_full_disk_is_told_at_once_and_a_learners_trouble_with_its_next_heartbeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "disk", monkeypatch) as disk:
        run = training_run(disk.folder)
        controller_lease.become_controller(run, CLOCK)
        assert told_by(run, Fixed(FULL))["full"] == ""
        disk.fill()
        told = told_by(run, Fixed(FULL))
        assert (told["exit_code"], told["verdict"]) == (20, "degraded")
        assert told["said"].startswith(f"No space left on device: {run.controller}; once that is")
        disk.free()
        assert told_by(run, Fixed(FULL))["verdict"] == "healthy"
        beat = run.slot(1).lease / "beat.json"
        trouble = "no checkpoint could be written: No space left on device"
        write_json(beat, {**read_json(beat), "trouble": trouble})
        assert told_by(run, Fixed(FULL))["said"].startswith(f"{trouble}; once that is mended")


def test_an_empty_slot_is_degraded(run: RunPaths) -> None:
    controller_lease.become_controller(run, CLOCK)
    told = told_by(run, Fixed(rows(JobState.RUNNING, JobState.ENDED)))
    assert (told["exit_code"], told["said"]) == (20, "1 of 2 slots train")


def test_no_job_and_no_controller_is_down(run: RunPaths) -> None:
    told = told_by(run, Fixed(rows(JobState.ENDED, JobState.ENDED)))
    assert (told["verdict"], told["exit_code"]) == ("down", 21)


def test_a_silent_queue_is_unknown_and_shows_what_was_last_known(run: RunPaths) -> None:
    known = told_by(run, Fixed(FULL))
    write_json(run.status, {**known, "ts": CLOCK.now() - 600})
    told = told_by(run, Fixed(UnknownQueue(CLOCK.now(), "Socket timed out")))
    assert (told["verdict"], told["exit_code"]) == ("unknown", 22)
    assert [slot["job_id"] for slot in told["slots"]] == [17, 18]
    assert 599 <= told["age_s"] <= 660
    assert "Socket timed out" in told["said"]
    assert "this is the state of 10 min ago" in told["said"]


def test_a_fresh_summary_of_a_living_controller_spares_the_queue(run: RunPaths) -> None:
    controller_lease.become_controller(run, CLOCK)
    known = told_by(run, Fixed(FULL))
    write_json(run.status, {**known, "ts": CLOCK.now()})
    queue = Fixed(FULL)
    assert told_by(run, queue)["exit_code"] == 0
    assert queue.looks == 0


def test_the_intent_wins_over_a_summary_of_before(run: RunPaths) -> None:
    """A second after `start` the last pass is still that of the run's end."""
    controller_lease.become_controller(run, CLOCK)
    wanted = DesiredRun(Mode.RUN, 2, "local", "r1", "x", started_ts=CLOCK.now())
    ended = {"known": True, "running": 0, "pending": 0, "others": 0, "maintenance_ts": None}
    known = told_by(run, Fixed(FULL))
    write_json(run.status, {**known, "ts": CLOCK.now(), "mode": "stopped", "queue": ended})
    write_intent(run, wanted, CLOCK.now())
    nothing = Fixed(Snapshot(CLOCK.now(), ()))
    assert told_by(run, nothing)["mode"] == "run"
    assert nothing.looks == 1
    write_intent(run, replace(wanted, mode=Mode.DRAIN), CLOCK.now())
    assert told_by(run, Fixed(FULL))["said"] == "stopping: 2 jobs still to exit"
    silent = told_by(run, Fixed(UnknownQueue(CLOCK.now(), "nobody asks")))
    assert silent["mode"] == "drain"
    assert silent["queue"]["known"], "the last pass read it"


def test_a_job_that_was_suspended_since_the_last_pass_is_no_silent_one(run: RunPaths) -> None:
    controller_lease.become_controller(run, CLOCK)
    known = told_by(run, Fixed(FULL))
    write_json(run.status, {**known, "ts": CLOCK.now()})
    beat = run.slot(1).lease / "beat.json"
    os.utime(beat, (CLOCK.now() - 130, CLOCK.now() - 130))
    suspended = replace(FULL.jobs[1], slurm_state="SUSPENDED")
    told = told_by(run, Fixed(replace(FULL, jobs=(FULL.jobs[0], suspended))))
    assert [slot["state"] for slot in told["slots"]] == ["trains", "suspended"]
    assert told["said"] == "1 of 2 slots train, 1 is suspended by Slurm"


def test_a_start_with_fewer_slots_hides_no_job(run: RunPaths) -> None:
    controller_lease.become_controller(run, CLOCK)
    write_intent(run, DesiredRun(Mode.RUN, 1, "local", "r1", "x"), CLOCK.now())
    told = told_by(run, Fixed(FULL))
    assert [slot["state"] for slot in told["slots"]] == ["trains", "leaves"]
    assert told["said"] == "all is well: 1 of 1 slots train, 1 more leaves"
    assert told["hours"]["used"] <= told["hours"]["available"]
    left = told_by(run, Fixed(rows(JobState.RUNNING, JobState.ENDED)))
    assert len(left["slots"]) == 1
    assert left["hours"]["used"] <= left["hours"]["available"], "of the slots that are shown"


def test_a_completing_job_neither_trains_nor_runs(run: RunPaths) -> None:
    controller_lease.become_controller(run, CLOCK)
    ending = replace(FULL.jobs[1], slurm_state="COMPLETING", node="n3")
    told = told_by(run, Fixed(replace(FULL, jobs=(FULL.jobs[0], ending))))
    assert told["queue"]["running"] == 1
    assert told["queue"]["ending"] == [{"job_id": 18, "node": "n3"}]
    assert [slot["state"] for slot in told["slots"]] == ["trains", "ends"]
    assert "job 18 on n3 ends (COMPLETING" in told["said"]


def test_two_unanswered_submissions_are_told_until_one_is_answered(run: RunPaths) -> None:
    controller_lease.become_controller(run, CLOCK)
    ledger = LedgerFile(run.ledger, 1)
    for number in (3, 4):
        ledger.append(LedgerEntry("intent", 2.0, f"{number:012x}", {"number": number}))
        answer = {"reason": "Socket timed out on send/recv operation"}
        ledger.append(LedgerEntry("unanswered", 2.0, f"{number:012x}", answer))
    told = told_by(run, Fixed(FULL))
    assert told["exit_code"] == 20
    assert "(Socket timed out on send/recv operation)" in told["said"]
    ledger.append(LedgerEntry("submitted", 3.0, f"{4:012x}", {"job_id": 20}))
    assert told_by(run, Fixed(FULL))["exit_code"] == 0


def test_other_runs_of_the_person_are_counted_by_name(run: RunPaths) -> None:
    other = QueueJob(30, "", JobState.RUNNING, "RUNNING", run_id="b-123abc")
    waiting = QueueJob(31, "", JobState.PENDING, "PENDING", run_id="b-123abc")
    told = told_by(run, Fixed(replace(FULL, others=(other, waiting))))
    assert told["queue"]["other_runs"] == {"b-123abc": 1}


@pytest.mark.parametrize("mode", [Mode.STOPPED, Mode.DONE])
def test_what_was_asked_for_is_healthy_also_when_it_is_nothing(run: RunPaths, mode: Mode) -> None:
    write_intent(run, DesiredRun(mode, 2, "local", "r1", "the free cartridge"), CLOCK.now())
    told = told_by(run, Fixed(rows(JobState.ENDED, JobState.ENDED)))
    assert told["exit_code"] == 0


def test_a_controller_that_said_it_would_look_later_is_believed_for_so_long(run: RunPaths) -> None:
    controller_lease.become_controller(run, CLOCK)
    known = told_by(run, Fixed(FULL))
    write_json(run.status, {**known, "ts": CLOCK.now() - 150, "wake_ts": CLOCK.now() + 20})
    queue = Fixed(FULL)
    told_by(run, queue)
    assert queue.looks == 0
    write_json(run.status, {**known, "ts": CLOCK.now() - 300, "wake_ts": CLOCK.now() - 200})
    told_by(run, queue)
    assert queue.looks == 1


def test_a_damaged_intent_is_told_with_what_to_do_and_the_jobs_are_still_shown(
    run: RunPaths,
) -> None:
    known = told_by(run, Fixed(FULL))
    write_json(run.status, {**known, "ts": CLOCK.now() - 600})
    run.intent.write_text('{"mode": "ru')
    told = told_by(run, Fixed(FULL))
    assert told["exit_code"] == 20
    assert "intent.json" in told["said"]
    assert "type start or stop again" in told["said"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"v": 1}', '{"v": 2, "ts": 9e9}', '{"v": 99, "slots": 3}']
)
def test_a_damaged_or_foreign_summary_is_no_trouble(run: RunPaths, text: str) -> None:
    controller_lease.become_controller(run, CLOCK)
    run.status.write_text(text)
    assert told_by(run, Fixed(FULL))["exit_code"] == 0


def test_a_lost_ledger_is_made_up_for_by_the_listing_and_the_leases(run: RunPaths) -> None:
    controller_lease.become_controller(run, CLOCK)
    run.ledger.unlink()
    told = told_by(run, Fixed(FULL))
    assert told["exit_code"] == 0
    assert [slot["job_id"] for slot in told["slots"]] == [17, 18]


def test_a_slot_tells_its_rate_its_ages_and_when_it_leaves(run: RunPaths) -> None:
    controller_lease.become_controller(run, CLOCK)
    slot = run.slot(0)
    write_json(slot.lease / "beat.json", {"term": 1, "counter": 9, "steps_per_second": 120.5})
    write_json(slot.checkpoints / "t000001-s000000004096.json", {})
    began = CLOCK.now() - 100
    job = QueueJob(
        17, TOKENS[0], JobState.RUNNING, "RUNNING", started_ts=began, ends_ts=began + 600
    )
    told = told_by(run, Fixed(Snapshot(CLOCK.now(), (job, *FULL.jobs[1:]))))["slots"][0]
    assert told["beat"]["steps_per_second"] == 120.5
    assert told["beat_s"] < 60
    assert told["checkpoint_step"] == 4096
    assert told["checkpoint_s"] < 60
    assert told["leaves_ts"] == pytest.approx(
        began + 600 - 120, abs=0.01
    )  # a fifth of a short limit


def test_the_learner_s_own_word_of_when_it_leaves_is_preferred(run: RunPaths) -> None:
    beat = {"term": 1, "counter": 9, "leaves_in_s": 7700.0}
    write_json(run.slot(0).lease / "beat.json", beat)
    told = told_by(run, Fixed(FULL))
    assert told["slots"][0]["leaves_ts"] == pytest.approx(CLOCK.now() + 7700, abs=60)
    assert told["next_handover"]["slot"] == 0


def test_scheduler_calls_of_today_are_those_of_every_host(run: RunPaths) -> None:
    assert told_by(run, Fixed(FULL))["calls_today"] is None
    day = datetime.fromtimestamp(CLOCK.now(), tz=timezone.utc).strftime("%Y-%m-%d")
    run.calls.mkdir(parents=True)
    (run.calls / f"login-1-{day}.log").write_text("squeue\nsbatch\n")
    (run.calls / f"n7-{day}.log").write_text("squeue\n")
    (run.calls / "login-1-2020-01-01.log").write_text("squeue\n" * 99)
    (run.calls / f"gone-{day}.log").symlink_to(run.calls / "nowhere")  # cannot be read
    assert told_by(run, Fixed(FULL))["calls_today"] == 3


def test_versions_of_the_last_hour_are_counted_without_reading_all(run: RunPaths) -> None:
    shared = SharedPaths(run.shared_weights)
    shared.merged.mkdir(parents=True)
    for number in range(40):
        path = shared.version(number)
        path.write_text("{}")
        age = 0 if number >= 30 else 7200
        os.utime(path, (CLOCK.now() - age, CLOCK.now() - age))
    write_json(shared.head, {"version": 39, "fleet_steps": 4096})
    told = told_by(run, Fixed(FULL))
    assert told["versions_per_hour"] == 10
    assert told["steps"]["done"] == 4096
    write_json(shared.head, {"version": 10**30, "fleet_steps": 4096})  # damaged or forged
    assert told_by(run, Fixed(FULL))["versions_per_hour"] is None


def test_a_run_without_a_daemon_is_healthy_while_its_jobs_make_passes(run: RunPaths) -> None:
    intent = DesiredRun(Mode.RUN, 2, "local", "r1", "the free cartridge", daemon=False)
    write_intent(run, intent, CLOCK.now())
    known = told_by(run, Fixed(FULL))
    assert known["exit_code"] == 20  # nobody ever made one
    write_json(run.status, {**known, "ts": CLOCK.now() - 30})
    assert told_by(run, Fixed(FULL))["exit_code"] == 0
    write_json(run.status, {**known, "ts": CLOCK.now() - 3000})
    assert told_by(run, Fixed(FULL))["exit_code"] == 20


def test_a_paused_run_says_why_and_what_to_say(run: RunPaths) -> None:
    controller_lease.become_controller(run, CLOCK)
    why = "an administrator holds job 17"
    write_intent(run, DesiredRun(Mode.PAUSED, 2, "local", "r1", "x", reason=why), CLOCK.now())
    told = told_by(run, Fixed(FULL))
    assert (told["exit_code"], told["said"]) == (20, f"paused: {why}; type start to go on")


def test_hours_are_counted_from_the_ledger_where_the_summary_is_of_the_release_before(
    run: RunPaths,
) -> None:
    controller_lease.become_controller(run, CLOCK)
    ledger, now = LedgerFile(run.ledger, 1), CLOCK.now()
    ledger.append(LedgerEntry("claimed", now - 7200, TOKENS[0], {"slot": 0, "term": 1}))
    known = told_by(run, Fixed(FULL))
    assert known["hours"]["used"] >= 2.0
    older = {name: value for name, value in known.items() if name not in ("trained_s", "window_s")}
    write_json(run.status, {**older, "ts": CLOCK.now()})
    assert told_by(run, Fixed(FULL))["hours"]["used"] == pytest.approx(known["hours"]["used"], 0.01)


@pytest.mark.parametrize(("age_s", "verdict"), [(10.0, "healthy"), (900.0, "degraded")])
def test_a_run_without_a_new_version_for_longer_than_usual_is_degraded(
    run: RunPaths, age_s: float, verdict: str
) -> None:
    controller_lease.become_controller(run, CLOCK)
    shared, now = SharedPaths(run.shared_weights), CLOCK.now()
    shared.merged.mkdir(parents=True)
    for number in range(9):
        shared.version(number).write_text("{}")
        at = now - age_s - 30.0 * (8 - number)
        os.utime(shared.version(number), (at, at))
    write_json(shared.head, {"version": 8, "fleet_steps": 4096})
    jobs = [
        QueueJob(17 + n, TOKENS[n], JobState.RUNNING, "RUNNING", node="n1", started_ts=now - 3600)
        for n in range(2)
    ]
    told = told_by(run, Fixed(Snapshot(now, tuple(jobs))))
    assert told["verdict"] == verdict
    assert ("no version of the weights came for 15 min (usual: 30 s)" in told["said"]) is (
        verdict == "degraded"
    )
