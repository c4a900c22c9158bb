"""Tests failover: jobs of the local queue make the passes while no controller runs."""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.control_files import (
    DesiredRun,
    Probe,
    read_probe,
    write_intent,
    write_probe,
)
from Daddy.cluster.orchestrator.controller_types import Mode
from Daddy.cluster.orchestrator.decisions.controller_failover import GIVEN_UP
from Daddy.cluster.orchestrator.sidecar import FailoverWatch
from Daddy.core.clock import SystemClock
from Daddy.core.event_log import read_events
from Daddy.core.lease import Lease, end_term, read_lease
from Daddy.core.run_paths import RunPaths
from tests.cluster.conftest import small_config, until


class ManualClock(SystemClock):
    """A clock whose monotonic time the test sets."""

    at = 1000.0

    def monotonic(self):
        return self.at


class RecordingWatch(FailoverWatch):
    """A watch that records its passes and claims the lease for them, if no controller has it."""

    sees = True
    """False: Slurm does not answer here, so a pass claims nothing."""

    def __post_init__(self):
        super().__post_init__()
        self.passes = []
        self.excused = {}
        """Silences that each pass gives back."""

    def _run_single_pass(self, *options, release=""):
        self.passes.append(options)
        if not self.sees:
            return None
        lease = Lease.acquire(self.run.controller_lease, {**ELSEWHERE, "passing": True})
        if lease is not None:
            lease.beat({"wake_in_s": 60.0})
            lease.release("one pass was made")
        return {
            "final": None,
            "wake_in_s": 60.0,
            "term": lease.term if lease else -1,
            "silence": self.excused,
        }


FACTS = {
    "run_name": "tiny",
    "training": {"workload": "cartpole", "max_runtime_seconds": 3600},
    "slurm": {"time_limit": "2:00:00"},
    "controller": {"executor": "slurm", "poll_seconds": 30},
}
ELSEWHERE = {"host": "login-1", "pid": 4711, "created": 1.0}


@pytest.fixture
def run(tmp_path):
    found = RunPaths(tmp_path)
    intent = DesiredRun(Mode.RUN, 4, "slurm", "0" * 12, "cartpole", started_ts=1.0)
    write_intent(found, intent, 1.0)
    write_probe(found, Probe(may_submit=True, why="tried", by="a test", ts=2.0))
    return found


def job_in(run, slot, job_s=3600):
    """Make a training learner's lease and its sidecar's watch."""
    facts = {**FACTS, "training": {**FACTS["training"], "max_runtime_seconds": job_s}}
    lease = Lease.acquire(run.slot(slot).lease, {"token": f"t{slot}", **ELSEWHERE})
    lease.beat({"stage": "training"})
    return lease, RecordingWatch(run, run.root, slot, lease.term, ManualClock(), facts)


def looks(watch, leases, seconds, *others):
    """Check the leases every five seconds while the learners beat; return the last reason."""
    reason = ""
    for _ in range(seconds // 5):
        watch.clock.at += 5.0
        for lease in (*leases, *others):
            lease.beat({"stage": "training"})
        reason = watch.check_leases()
    return reason


def test_a_controller_elsewhere_is_dead_after_ninety_silent_seconds_of_our_own_clock(run):
    controller = Lease.acquire(run.controller_lease, ELSEWHERE)
    controller.beat()
    lease, watch = job_in(run, 0)
    looks(watch, [lease], 300, controller)
    assert watch.passes == []
    looks(watch, [lease], 85)
    assert watch.passes == []
    looks(watch, [lease], 10)
    assert len(watch.passes) == 1
    assert "--watched" in watch.passes[0]
    assert '"0": [1,' in watch.passes[0][-1]  # the slots' silences
    looks(watch, [lease], 50)
    assert len(watch.passes) == 1
    looks(watch, [lease], 10)
    assert len(watch.passes) == 2  # at the time that the pass returned
    controller.beat()
    looks(watch, [lease], 30, controller)
    assert len(watch.passes) == 2


def test_a_controller_that_cannot_read_the_queue_is_asked_to_give_way_at_once(run):
    controller = Lease.acquire(run.controller_lease, ELSEWHERE)
    lease, watch = job_in(run, 0)
    for _ in range(12):
        watch.clock.at += 5.0
        controller.beat()
        lease.beat({"stage": "training"})
        assert "lives" in watch.check_leases()
    controller.beat({"blind_s": 60})
    assert "cannot read the queue" in watch.check_leases()
    assert [options[0] for options in watch.passes] == ["--silence"]  # not by silence
    controller.release(GIVEN_UP)
    looks(watch, [lease], 65)
    assert len(watch.passes) == 2


def test_after_a_single_pass_nobody_waits_for_a_daemon_to_come_back(run):
    lease, watch = job_in(run, 0)
    Lease.acquire(run.controller_lease, {**ELSEWHERE, "passing": True}).release("one pass was made")
    looks(watch, [lease], 5)
    assert len(watch.passes) == 1


def test_only_the_job_in_the_lowest_living_slot_makes_passes(run):
    low, low_watch = job_in(run, 1)
    high, high_watch = job_in(run, 2)
    looks(high_watch, [low, high], 100)
    assert high_watch.passes == []
    looks(low_watch, [low, high], 100)
    assert len(low_watch.passes) >= 1
    looks(high_watch, [high], 65)  # the lower slot's heartbeat stopped
    assert len(high_watch.passes) == 1


def test_a_lowest_job_that_cannot_list_the_queue_keeps_no_higher_slot_from_passes(run):
    jobs = [job_in(run, slot) for slot in range(3)]
    (_, blind), (_, second), (_, third) = jobs
    blind.sees = False
    everyone = [lease for lease, _ in jobs]

    def together(seconds):
        for _ in range(seconds // 5):
            for _, watch in jobs:
                looks(watch, everyone, 5)

    together(130)
    assert len(blind.passes) >= 1
    assert second.passes == []
    together(10)
    assert len(second.passes) == 1
    together(300)
    assert len(second.passes) == 6, "the job that made the newest pass goes on at its rhythm"
    assert third.passes == []
    blind.sees = True
    together(400)
    assert len(second.passes) <= 7, "the lowest job that can makes the passes"


def test_a_pass_that_fails_restarts_no_wait(run):
    low, _ = job_in(run, 0)
    high, watch = job_in(run, 1)
    for _ in range(27):  # each half minute a pass of the lower job claims the lease and fails
        failing = Lease.acquire(run.controller_lease, {**ELSEWHERE, "passing": True})
        assert "makes a pass" in looks(watch, [low, high], 5, failing)
        failing.release("one pass was made")
        looks(watch, [low, high], 5)
        if watch.passes:
            break
    assert len(watch.passes) == 1


def test_a_job_that_was_suspended_is_not_silent_to_the_pass_after_it_resumed(run):
    lease, watch = job_in(run, 0)
    suspended, _ = job_in(run, 1)
    watch.excused = {"1": [suspended.term, 1, 0.0]}  # each pass finds it suspended
    looks(watch, [lease], 800)
    told = [json.loads(options[-1])["1"][2] for options in watch.passes]
    assert len(told) > 10
    assert max(told[1:]) < 90.0, "as long as between two passes"


def test_jobs_of_less_than_a_minute_take_over_from_a_silent_controller(run):
    controller = Lease.acquire(run.controller_lease, ELSEWHERE)
    controller.beat()
    lease, watch = job_in(run, 0, job_s=45)
    looks(watch, [lease], 20)
    assert len(watch.passes) == 1
    high, above = job_in(run, 1, job_s=45)
    looks(above, [lease, high], 30)
    assert len(above.passes) == 0, "the newest pass asked for the next after a third of a job"
    looks(above, [lease, high], 10)
    assert len(above.passes) == 1


def test_a_short_job_that_loads_makes_a_pass_before_its_end(run):
    lease, watch = job_in(run, 0, job_s=45)
    for _ in range(10):
        watch.clock.at += 2.0
        lease.beat({"stage": "loading"})
        watch.check_leases()
    assert len(watch.passes) == 1


def test_a_job_that_still_loads_leaves_the_processor_to_its_learner(run):
    lease, watch = job_in(run, 0)
    lease.beat({"stage": "loading"})
    for _ in range(50):
        watch.clock.at += 2.0
        watch.check_leases()
    assert watch.passes == []
    looks(watch, [lease], 5)
    assert len(watch.passes) == 1


def test_a_job_that_lost_its_slot_makes_no_pass_any_more(run):
    lease, watch = job_in(run, 0)
    end_term(run.slot(0).lease, lease.term, "no beat for 300 s")
    assert "no slot" in looks(watch, [], 200)
    assert watch.passes == []


def test_where_jobs_may_not_submit_no_pass_is_made(run):
    write_probe(run, Probe(may_submit=False, why="denied", by="a test", ts=3.0))
    lease, watch = job_in(run, 0)
    looks(watch, [lease], 300)
    assert watch.passes == []


def test_an_answer_from_before_the_last_start_does_not_count(run):
    write_probe(run, Probe(may_submit=False, why="denied", by="a test", ts=0.5))
    lease, watch = job_in(run, 0)
    looks(watch, [lease], 95)
    assert watch.passes[0] == ("--probe",)


def test_a_hand_over_leads_to_a_pass_at_once(run):
    lease, watch = job_in(run, 0)
    other, _ = job_in(run, 1)
    looks(watch, [lease, other], 95)
    assert len(watch.passes) == 1
    other.release("wall time")
    looks(watch, [lease], 10)
    assert len(watch.passes) == 2


def sidecars(person) -> dict[int, list[str]]:
    """Return the process ids and command lines of this run's sidecars."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                argv = (entry / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if "Daddy.cluster.orchestrator.sidecar" in argv and str(person.run.root) in argv:
                found[int(entry.name)] = argv
    return found


def terms(person) -> list[int]:
    views = [read_lease(person.run.slot(slot).lease) for slot in range(2)]
    return [0 if view is None else view.term for view in views]


def handed_over(person, since: list[int], times: int) -> bool:
    return all(now >= then + times for now, then in zip(terms(person), since, strict=True))


def test_a_killed_controller_costs_no_hand_over_and_one_that_comes_back_takes_over(person):
    assert person.run_controller("start").returncode == 0
    until(lambda: len(person.ledger("submitted")) == 4)  # each slot has a successor in the queue
    until(lambda: person.training == 2)
    os.kill(person.controller, signal.SIGKILL)
    since = terms(person)
    until(lambda: handed_over(person, since, 4), 90)  # more than waited in the queue
    by_jobs = {entry["by"] for entry in person.ledger("submitted")}
    assert max(by_jobs) > 1
    assert read_probe(person.run).may_submit
    until(lambda: person.training == 2)
    said = [event["data"].get("text", "") for event in read_events(person.run.events)]
    assert any("makes the passes meanwhile" in text for text in said)
    log = person.run.logs / "failover.log"
    line = re.compile(r"Z INFO +apply_plan: attempt \d+ \(job \d+\) submitted")
    until(lambda: line.search(log.read_text()))
    assert person.run_controller("start").returncode == 0
    back = read_lease(person.run.controller_lease)
    assert not back.holder["passing"]
    time.sleep(3.0)
    assert read_lease(person.run.controller_lease).term == back.term


def test_without_a_daemon_the_jobs_run_the_fleet_from_the_first_minute(person):
    # Jobs of 4 s all ended before a loaded machine had loaded a sidecar, and nobody was left.
    config = small_config(person.run.root, training={"max_runtime_seconds": 8})
    person.config.write_text(json.dumps(config))
    done = person.run_controller("start", "--no-daemon")
    assert done.returncode == 0, done.stderr
    until(lambda: person.training == 2)
    since = terms(person)
    until(lambda: handed_over(person, since, 3), 90)
    assert read_lease(person.run.controller_lease).holder["passing"]
    assert person.run_controller("stop", timeout_s=90).returncode == 0


def test_a_sidecar_is_light_and_ends_with_its_job_however_that_ends(person):
    config = small_config(person.run.root, training={"max_runtime_seconds": 60})
    config["slurm"]["time_limit"] = "0:01:30"
    person.config.write_text(json.dumps(config))
    assert person.run_controller("start").returncode == 0
    until(lambda: person.training == 2 and len(sidecars(person)) == 2)
    time.sleep(2.0)
    for pid in sidecars(person):
        facts = Path(f"/proc/{pid}/status").read_text()
        resident = next(line for line in facts.splitlines() if line.startswith("VmRSS"))
        assert int(resident.split()[1]) <= 30 * 1024
    view = read_lease(person.run.slot(0).lease)
    os.kill(int(view.holder["pid"]), signal.SIGKILL)
    gone = [pid for pid, argv in sidecars(person).items() if argv[argv.index("--slot") + 1] == "0"]
    until(lambda: not set(gone) & set(sidecars(person)), 10)


def test_where_failover_is_not_wanted_no_sidecar_is_started(person):
    config = small_config(person.run.root, controller={"failover": False})
    person.config.write_text(json.dumps(config))
    assert person.run_controller("start").returncode == 0
    until(lambda: person.training == 2)
    assert sidecars(person) == {}
