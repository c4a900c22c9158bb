"""Tests faults 18 to 30, 34 and 35, and five more, of nodes and jobs."""

import os

import pytest

from Daddy.cluster.orchestrator.controller_types import JobOutcome, Mode
from tests.cluster.faults.site import HOUR, Login, Site


def outcomes(login: Login) -> list[JobOutcome | None]:
    return [attempt.outcome for attempt in login.ledger.attempts if not attempt.live]


def test_fault_18_a_node_dies_where_the_site_requeues(site: Site, login: Login) -> None:
    login.settle()
    with site.state() as state:
        waiting = [job["id"] for job in state["jobs"] if job["state"] == "PENDING"]
    (job_id,) = site.node_dies(next(iter(site.jobs("RUNNING")))["node"], requeue=True)
    sent = site.calls("sbatch")
    login.drive(100.0)
    assert site.job(job_id)["state"] == "PENDING"
    assert site.calls("sbatch") == sent, "the same id waits: it is not submitted again"
    login.drive(600.0)
    assert site.training == 4
    assert len({learner.job_id for learner in site.learners.values()} & {job_id, *waiting}) == 1
    assert site.twice() == []


def test_fault_19_a_node_dies_and_its_job_is_not_requeued(site: Site, login: Login) -> None:
    login.settle()
    node = site.jobs("RUNNING")[0]["node"]
    site.node_dies(node)
    login.drive(120.0)
    assert site.training == 4
    assert JobOutcome.NODE_FAILED in outcomes(login)
    for _ in range(3):
        site.node_dies(node)
        login.drive(120.0)
    assert site.training == 4
    assert all(node in (job["excluded"] or "") for job in site.jobs("PENDING")), "two strikes"
    assert site.twice() == []


def test_fault_20_a_black_hole_node_fails_every_job(site: Site, login: Login) -> None:
    login.settle()
    _black_hole(site, login)


@pytest.mark.parametrize("site", ["pool"], indirect=True)
def test_a_black_hole_node_with_eight_queued_successors_wastes_three_at_most(
    site: Site, login: Login
) -> None:
    login.settle()
    _slow_queue(site, login)
    assert len(site.jobs("PENDING")) >= 8
    _black_hole(site, login)


def _black_hole(site: Site, login: Login) -> None:
    site.behaviour.bad_nodes = ("n1",)
    for job in site.jobs("RUNNING"):
        if job["node"] == "n1":
            site.finish(job["id"], "NODE_FAIL")
    begun = site.true
    login.drive(HOUR)
    wasted = [node for at, _, node in site.starts if at >= begun and node == "n1"]
    assert 1 <= len(wasted) <= 3
    assert site.training == 4
    assert all("n1" in job["excluded"] for job in site.jobs("PENDING"))
    assert site.twice() == []


def _slow_queue(site: Site, login: Login) -> None:
    """After hand-overs that wait for minutes more successors are queued."""
    site.wait_s = 400.0
    for _ in range(6):
        for job in site.jobs("PENDING"):
            site.change(job["id"], begin=site.true + 400.0)
        learner = next(iter(site.learners.values()))
        site.finish(learner.job_id, "CANCELLED")
        login.drive(900.0)
    site.wait_s = 0.0


def test_fault_21_a_bad_deploy_fails_every_job(site: Site, login: Login) -> None:
    site.behaviour.crash_after_s = 20.0
    login.drive(HOUR)
    assert site.calls("sbatch") <= 6
    first = site.calls("sbatch")
    login.drive(5 * HOUR)
    assert 3 <= site.calls("sbatch") - first <= 7, "one canary an hour"
    assert len(login.kinds("noticed")) == 1, "one alert"
    site.behaviour.crash_after_s = None
    login.drive(3 * HOUR)
    assert site.training == 4, "a canary that makes progress closes the breaker"


def test_fault_22_a_job_hangs(site: Site, login: Login) -> None:
    login.settle()
    learner = next(iter(site.learners.values()))
    learner.hung, begun = True, site.true
    while any(other.job_id == learner.job_id for other in site.learners.values()):
        login.drive(30.0)
        assert site.true - begun < 700.0
    assert site.true - begun >= 300.0, "five minutes of silence are allowed"
    kinds = [entry.token for kind in ("signalled", "cancelled") for entry in login.kinds(kind)]
    assert kinds == [learner.token, learner.token], "asked first, then ended"
    login.drive(120.0)
    assert site.training == 4
    assert JobOutcome.HUNG in outcomes(login)
    assert site.twice() == []


def test_fault_23_a_slow_learner_beats_but_makes_no_progress(site: Site, login: Login) -> None:
    site.behaviour.checkpoint_s = 1e9
    login.drive(100.0)
    held = {learner.job_id for learner in site.learners.values()}
    login.drive(HOUR)
    assert {learner.job_id for learner in site.learners.values()} == held, "nobody is killed for it"
    told = [entry.data["notice"] for entry in login.kinds("noticed")]
    assert len(told) == len(set(told)) == 4
    assert all(kind.startswith("stall-") for kind in told)


def test_fault_27_preemption_where_the_site_cancels(site: Site, login: Login) -> None:
    login.settle()
    learner = next(iter(site.learners.values()))
    site.finish(learner.job_id, "PREEMPTED")
    login.drive(120.0)
    assert site.training == 4
    assert outcomes(login) == [JobOutcome.DRAINED], "no failure of ours"
    assert site.twice() == []


def test_fault_29_the_person_cancels_one_job_by_hand(site: Site, login: Login) -> None:
    login.settle()
    learner = next(iter(site.learners.values()))
    site.change(learner.job_id, mail=["TERM"], uid=os.getuid())
    login.drive(180.0)
    assert site.job(learner.job_id)["state"] == "CANCELLED"
    assert site.training == 4, "it is replaced"
    assert login.mode is Mode.RUN, "stop is the only way to shrink"
    assert site.twice() == []


def test_fault_30_the_persons_other_job_waits_for_the_cap(site: Site, login: Login) -> None:
    login.settle()
    with site.state() as state:
        like = next(job for job in state["jobs"] if job["state"] == "PENDING")
        own = {"id": 900, "name": "thesis", "comment": "", "submit": site.true, "limit": 1200}
        state["jobs"].append({**like, **own, "held": "", "after": None, "mail": []})
        state["next_id"] = 901
    asked = site.true
    while site.job(900)["state"] == "PENDING":
        login.drive(30.0)
        assert site.true - asked < 330.0, "150 s to a look when all is quiet, 90 s to leave"
    held = {entry.token for entry in login.kinds("amended") if entry.data.get("hold") is True}
    assert len(held) == 4, "ours wait"
    assert site.training == 3
    leavers = [entry.data["reason"] for entry in login.kinds("left")]
    assert leavers == ["signal SIGUSR1"], "one slot wrote a checkpoint and left"
    site.finish(900, "COMPLETED")
    login.drive(300.0)
    assert site.training == 4, "and is refilled afterwards"
    assert site.job(900)["mail"] == []
    assert site.twice() == []


def test_fault_35_a_maintenance_reservation(site: Site, login: Login) -> None:
    """Jobs that run into it wait; those that end before when shortened start at once."""
    login.settle()
    with site.state() as state:
        start = site.true + 2 * HOUR
        state["reservations"].append({"name": "maint", "start": start, "end": start + 4 * HOUR})
    learner = next(iter(site.learners.values()))
    sent, aged = site.calls("sbatch"), {job["id"]: job["submit"] for job in site.jobs("PENDING")}
    site.finish(learner.job_id, "NODE_FAIL")
    login.drive(300.0)
    assert site.training == 4, "a shortened job fits before the maintenance"
    short = next(job for job in site.jobs("RUNNING") if job["limit"] < 4 * 3600)
    assert short["start"] + short["limit"] <= start
    assert short["submit"] == aged[short["id"]], "it kept its age"
    assert site.calls("scancel") == 0
    assert site.calls("sbatch") - sent <= 2
    for other in list(site.learners.values()):
        site.finish(other.job_id, "NODE_FAIL")
    site.tick(start - site.true - 300.0)
    sent = site.calls("sbatch")
    login.drive(HOUR)
    assert site.training == 0, "nothing starts in a maintenance"
    assert site.calls("sbatch") - sent <= 8
    login.drive(5 * HOUR)
    assert site.training == 4
    assert site.twice() == []


@pytest.mark.parametrize("accounting", [False, True])
def test_prologs_that_fail_at_the_first_start_cost_their_nodes_and_not_the_run(
    site: Site, login: Login, accounting: bool
) -> None:
    with site.state() as state:
        state["accounting"] = accounting
    site.behaviour.bad_prologs = ("n1", "n2")
    login.settle()
    assert login.mode is Mode.RUN
    assert outcomes(login) == [JobOutcome.NODE_FAILED] * 2
    assert site.calls("sinfo drained") <= 2, "asked for ended jobs only"


@pytest.mark.parametrize("how", ["another user", "held", "all at once"])
def test_an_administrators_word_pauses_the_run(site: Site, login: Login, how: str) -> None:
    with site.state() as state:
        state["accounting"] = how == "another user"
    login.settle()
    if how == "held":
        waiting = site.jobs("PENDING")[0]
        site.change(waiting["id"], held="admin", reason="JobHeldAdmin")
    else:
        count = 1 if how == "another user" else 3
        for learner in list(site.learners.values())[:count]:
            site.finish(learner.job_id, "CANCELLED")
            site.change(learner.job_id, uid=0 if os.getuid() else 4242)
    login.drive(240.0)
    assert login.mode is Mode.PAUSED
    sent, left = site.calls("sbatch"), {learner.job_id for learner in site.learners.values()}
    login.start()  # a daemon that comes back obeys
    login.drive(HOUR)
    assert login.mode is Mode.PAUSED
    assert site.calls("sbatch") == sent
    assert {learner.job_id for learner in site.learners.values()} <= left, "nobody starts"
    assert len([entry for entry in login.kinds("noticed") if entry.data["notice"] == "paused"]) == 1
    for job in site.jobs("PENDING"):
        site.change(job["id"], held="", reason="None")
    site.tick(10.0)
    login.intend(Mode.RUN)  # what `start` writes
    login.start()
    login.drive(600.0)
    assert site.training == 4


def test_a_suspended_job_is_not_taken_for_a_hang(site: Site, login: Login) -> None:
    login.settle()
    learner = next(iter(site.learners.values()))
    site.change(learner.job_id, state="SUSPENDED")
    before = site.calls("scancel")
    login.drive(1200.0)
    assert site.calls("scancel") == before
    assert site.job(learner.job_id)["state"] == "SUSPENDED"
    site.change(learner.job_id, state="RUNNING")
    login.drive(300.0)
    assert site.calls("scancel") == before
    assert {other.job_id for other in site.learners.values()} >= {learner.job_id}
    assert site.twice() == []
