"""Tests faults 6 to 11 and 28: unread listings end no job, and ended jobs are noticed."""

from __future__ import annotations

import pytest

from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import JobOutcome, Mode
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
