"""Tests faults 6 to 11 and 28: unread listings end no job, and ended jobs are noticed."""

import pytest

from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import JobOutcome, Mode
from Daddy.cluster.orchestrator.scheduler_factory import fix_run_id
from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler
from Daddy.core.errors import SchedulerError
from tests.cluster.faults.site import HOUR, Login, Site


def doings(site: Site) -> list[int]:
    return [site.calls(name) for name in ("sbatch", "scancel")]


@pytest.mark.parametrize("how", ["frozen", "down", "hang"])
def test_fault_06_slurmctld_frozen_for_twenty_minutes(site: Site, login: Login, how: str) -> None:
    login.settle()
    known, before = len(login.status()["slots"]), doings(site)
    jobs = {job["id"] for job in site.jobs()}
    site.freeze(1200.0, how)
    login.drive(1190.0)
    assert doings(site) == before, "no action"
    shown = login.status()
    assert shown["queue"]["known"] is False
    assert len(shown["slots"]) == known, "the last known is shown"
    login.drive(300.0)
    assert login.status()["queue"]["known"] is True, "it resumes alone"
    assert site.training == 4
    assert {job["id"] for job in site.jobs("RUNNING")} <= jobs
    assert site.twice() == []


def test_fault_07_slurmctld_down_across_a_handover(site: Site) -> None:
    login = Login(site, settings={"slurm": {"time_limit": "1:00:00"}})
    login.settle()
    leave = min(learner.ends for learner in site.learners.values())
    login.drive(leave - site.true - 60.0)
    queued = {job["id"] for job in site.jobs("PENDING")}
    assert len(queued) >= 4
    site.freeze(300.0, "down")
    login.drive(290.0)
    assert site.training == 0, "they left in their own time, and nothing could start"
    site.tick(20.0)  # slurmctld is back; no pass was made yet
    assert site.training == 4
    assert {learner.job_id for learner in site.learners.values()} <= queued, (
        "those that were queued"
    )
    login.drive(600.0)
    assert site.training == 4
    assert [
        attempt for attempt in login.ledger.attempts if attempt.outcome is JobOutcome.LOST
    ] == []
    assert site.twice() == []


def test_fault_08_squeue_answers_empty_at_exit_code_zero_once(site: Site, login: Login) -> None:
    login.settle()
    before, ended = doings(site), len(login.kinds("ended"))
    site.fault("squeue", "empty")
    login.one_pass()
    site.tick(60.0)
    login.drive(300.0)
    assert doings(site) == before
    assert len(login.kinds("ended")) == ended
    assert site.training == 4


@pytest.mark.parametrize("do", ["cut", "garble"])
def test_fault_09_squeue_prints_a_truncated_or_garbled_line(shims: Site, do: str) -> None:
    login = Login(shims)
    login.drive(120.0)
    before, count = doings(shims), len(login.kinds("ended")) + len(login.kinds("absent"))
    shims.fault("squeue", do, times=2)
    for _ in range(2):
        login.one_pass()
        assert login.status()["queue"]["known"] is False
        shims.tick(60.0)
    assert doings(shims) == before
    assert len(login.kinds("ended")) + len(login.kinds("absent")) == count


@pytest.mark.parametrize("accounting", [False, True])
def test_fault_10_sacct_is_disabled_or_late(site: Site, login: Login, accounting: bool) -> None:
    with site.state() as state:
        state.update(accounting=accounting, sacct=[])
    login.settle()
    polite, silent = list(site.learners.values())[:2]
    polite.lease.release("wall time")
    for learner in (polite, silent):  # slurmctld has forgotten them already
        site.finish(learner.job_id, "FAILED")
    with site.state() as state:
        state["jobs"] = [
            job for job in state["jobs"] if job["id"] not in (polite.job_id, silent.job_id)
        ]
    begun = site.true
    login.drive(300.0)
    ended = {entry.token: entry for entry in login.kinds("ended")}
    assert ended[polite.token].data["outcome"] == "drained", "its own goodbye stands on disk"
    assert ended[silent.token].data["outcome"] == "lost"
    assert ended[silent.token].ts - begun >= 30.0, "the second listing"
    assert site.training == 4
    assert site.twice() == []


def test_fault_11_a_recycled_job_id(site: Site, login: Login) -> None:
    login.settle()
    learner = next(iter(site.learners.values()))
    site.finish(learner.job_id, "FAILED")
    stranger = {"id": learner.job_id, "name": "matlab", "comment": "", "state": "RUNNING"}
    with site.state() as state:
        old = next(job for job in state["jobs"] if job["id"] == learner.job_id)
        state["jobs"].remove(old)
        fresh = {**old, **stranger, "start": site.true, "end": None, "exit": 0, "mail": []}
        state["jobs"].append({**fresh, "limit": 90000})
    begun = site.true
    login.drive(300.0)
    (ended,) = [entry for entry in login.kinds("ended") if entry.token == learner.token]
    assert ended.data["outcome"] == "lost"
    assert ended.ts > begun
    login.intend(Mode.NOW)
    login.drive(300.0)
    assert site.job(learner.job_id)["state"] == "RUNNING", "the stranger's job is never touched"
    assert site.job(learner.job_id)["mail"] == []
    assert site.training == 0


def test_fault_28_a_wait_of_twelve_hours(site: Site, login: Login) -> None:
    login.settle()
    site.wait_s = 12 * HOUR
    gone = next(iter(site.learners.values()))
    site.behaviour.crash_after_s = None
    for job in site.jobs("PENDING"):
        site.change(job["id"], submit=site.true, expected=site.true + 12 * HOUR)
    site.finish(gone.job_id, "FAILED", 1)
    others = {learner.job_id for learner in site.learners.values()}
    login.drive(2 * HOUR)
    assert {learner.job_id for learner in site.learners.values()} == others, (
        "the others are unaffected"
    )
    assert 1 <= len(site.jobs("PENDING")) <= ControllerPolicy().spares + ControllerPolicy().extra, (
        "no storm"
    )
    assert login.status()["waiting"][0]["expected_ts"] == pytest.approx(
        site.true + 10 * HOUR, abs=5
    )


@pytest.mark.parametrize("exit_of", ["nobody", "one learner"])
def test_a_listing_that_lacks_beating_jobs_ends_none_of_them(
    site: Site, login: Login, exit_of: str
) -> None:
    """squeue prints nothing with exit code 0 for an hour; jobs train on, one may leave."""
    login.settle()
    before, jobs = doings(site), {job["id"] for job in site.jobs("RUNNING")}
    leavers = set[int]()
    site.fault("squeue", "empty", until=site.true + 3600.0)
    login.drive(300.0)
    shown = login.status()
    assert shown["queue"]["known"] is False
    assert "squeue lists no job of this run, but heartbeats come from" in shown["queue"]["why"]
    if exit_of == "one learner":
        leaver = next(iter(site.learners.values()))
        leaver.ends = site.true
        leavers = {leaver.job_id}
    login.drive(3290.0)
    assert doings(site) == before, "nothing was submitted or cancelled"
    login.drive(300.0)
    assert login.status()["queue"]["known"] is True
    assert site.training == 4
    assert jobs - leavers <= {job["id"] for job in site.jobs("RUNNING")}
    lost = (attempt for attempt in login.ledger.attempts if attempt.outcome is JobOutcome.LOST)
    assert {attempt.job_id for attempt in lost} <= leavers
    assert site.twice() == []


def test_a_listing_that_lacks_one_beating_job_proves_nothing_about_any_absent_job(
    site: Site, login: Login
) -> None:
    login.settle()
    before = doings(site)
    running, waiting = site.jobs("RUNNING")[0]["id"], site.jobs("PENDING")[0]["id"]
    for job_id in (running, waiting):
        site.change(job_id, visible=site.true + 3600.0)
    login.drive(3590.0)
    assert doings(site) == before
    assert login.status()["queue"]["known"] is True, "the other jobs are listed"
    login.drive(300.0)
    assert site.training == 4
    assert login.kinds("ended") == []
    assert site.twice() == []


def test_a_heartbeat_is_believed_until_ten_minutes_after_the_jobs_own_end_and_then_fenced(
    site: Site,
) -> None:
    """The job left the queue and its learner beats for ever: it loses its slot by its term."""
    login = Login(site, settings={"slurm": {"time_limit": "1:00:00"}})
    login.settle()
    zombie = site.learners[site.jobs("RUNNING")[0]["id"]]
    zombie.ends = float("inf")
    own_end = site.job(zombie.job_id)["start"] + HOUR
    site.change(zombie.job_id, visible=float("inf"), limit=9 * HOUR)
    login.drive(own_end + 590.0 - site.true)
    assert zombie.lease.held()
    login.drive(300.0)
    assert not zombie.lease.held()


def test_a_job_that_left_the_queue_without_a_word_is_replaced_once_its_heartbeat_stops(
    site: Site, login: Login
) -> None:
    login.settle()
    gone = site.jobs("RUNNING")[0]["id"]
    site.finish(gone, "COMPLETED")
    site.change(gone, visible=float("inf"))
    login.drive(400.0)
    assert site.training == 4
    assert login.kinds("ended")[0].data["outcome"] == "lost"


def test_a_listing_of_another_cluster_is_no_listing(
    site: Site, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. A run begins. 2. A controller begins with another SLURM_CONF. 3. One with the own."""
    fix_run_id("slurm", login.config, login.run, site.clock)
    login.settle()
    before, asked = doings(site), site.calls("scontrol")
    assert len(SlurmScheduler("", site.clock, run=login.run).snapshot().others) == 8
    assert site.calls("scontrol") == asked, "the name is asked where the place changes only"
    with monkeypatch.context() as elsewhere, site.state() as state:
        elsewhere.setenv("SLURM_CONF", "/of/another/slurm.conf")
        state["cluster"], jobs, state["jobs"] = "other", state["jobs"], []
        login.start()
        login.one_pass()
        why = "cluster other answers here, and this run's jobs are on linuxlab"
        assert login.status()["queue"]["why"] == why
        login.drive(900.0)
        with pytest.raises(SchedulerError, match="this run has jobs on linuxlab"):
            fix_run_id("slurm", login.config, login.run, site.clock)
        state["cluster"], state["jobs"] = "linuxlab", jobs
    login.start()
    login.drive(600.0)
    assert login.status()["queue"]["known"] is True
    assert doings(site) == before
    assert login.kinds("ended") == []
