"""Tests faults 1 to 5: every answer of sbatch, and none, leads to one job and never two."""

import pytest

from Daddy.cluster.orchestrator.controller_types import Mode, Phase
from tests.cluster.faults.site import HOUR, Login, Site


def tokens(site: Site) -> list[str]:
    return [job["name"].rsplit("-", 1)[-1] for job in site.jobs()]


def test_fault_01_sbatch_timed_out_and_the_job_was_created(shims: Site) -> None:
    login = Login(shims)
    shims.fault("sbatch", "time out", appears=0)
    login.drive(150.0)
    (lost,) = login.kinds("unanswered")
    adopted = [entry for entry in login.kinds("submitted") if entry.token == lost.token]
    assert [entry.data.get("adopted") for entry in adopted] == [True]
    assert shims.training == 4
    assert tokens(shims).count(lost.token) == 1
    assert shims.calls("sbatch") == len(shims.jobs()) == len(login.kinds("intent"))


def test_fault_02_sbatch_timed_out_and_made_no_job(shims: Site) -> None:
    login = Login(shims)
    shims.fault("sbatch", "time out")
    begun = shims.true
    login.drive(200.0)
    (lost,) = login.kinds("unanswered")
    (given_up,) = [entry for entry in login.kinds("rejected") if entry.token == lost.token]
    looks = [entry.ts for entry in login.kinds("absent") if entry.token == lost.token]
    assert len(looks) == 1
    assert given_up.ts - looks[0] >= 30.0, "two listings, thirty seconds apart"
    assert given_up.ts - begun < 120.0
    assert shims.training == 4
    assert shims.calls("sbatch") == len(shims.jobs()) + 1, "one retry"


@pytest.mark.parametrize(
    "fault",
    [
        {"do": "around", "before": "Dear user, quota at 91 %\n", "after": "Have a nice day 2026\n"},
        {"do": "around", "err": "sbatch: warning: can't run 1 processes on 2 nodes\n"},
        {"do": "federated"},
    ],
)
def test_fault_03_sbatch_prints_warnings_around_the_id(shims: Site, fault: dict[str, str]) -> None:
    login = Login(shims, slots=2)
    shims.fault("sbatch", fault.pop("do"), times=9, **fault)
    login.one_pass()
    assert login.kinds("unanswered") == []
    assert [entry.data["job_id"] for entry in login.kinds("submitted")] == [101, 102]


def test_fault_04_sbatch_refused_because_of_max_submit(site: Site, login: Login) -> None:
    with site.state() as state:
        state["max_submit"] = 4
    login.drive(HOUR)
    refused = login.kinds("rejected")
    assert site.training == 4
    assert len(refused) <= 1, "learnt at the first refusal, where it could not be read before"
    assert any(entry.data.get("site") for entry in login.kinds("learnt"))
    before = site.calls("sbatch")
    login.start()  # limits are kept in the ledger
    login.drive(HOUR)
    assert site.calls("sbatch") == before
    login.drive(3 * HOUR)  # a hand-over: submitted when there is room again
    assert site.training == 4
    assert site.calls("sbatch") <= before + 8, "no storm of errors"


@pytest.mark.parametrize(
    "words",
    [
        "Invalid account or account/partition combination specified",
        "invalid partition specified: nope",
    ],
)
def test_fault_05_sbatch_refused_because_of_a_bad_account_or_partition(
    site: Site, login: Login, words: str
) -> None:
    err = f"sbatch: error: Batch job submission failed: {words}\n"
    site.fault("sbatch", "say", rc=1, err=err, times=99)
    login.drive(6 * HOUR)
    assert site.calls("sbatch") == 1
    assert words in login.said()
    assert login.ledger.live == ()
    assert {attempt.phase for attempt in login.ledger.attempts} == {Phase.REJECTED}
    assert len(login.kinds("noticed")) == 1, "one message"
    assert login.mode is Mode.RUN


def test_poisoned_environment(shims: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQUEUE_STATES=R would hide waiting jobs with exit code 0, SBATCH_* rename our jobs."""
    poison = {
        "SQUEUE_STATES": "R",
        "SQUEUE_FORMAT": "%i",
        "SBATCH_JOB_NAME": "mine",
        "SBATCH_REQUEUE": "1",
        "SBATCH_TIME": "1",
        "SLURM_MEM_PER_NODE": "1",
        "SLURM_JOB_ID": "7",
        "SLURM_TIME_FORMAT": "relative",
        "LC_ALL": "de_DE.UTF-8",
    }
    for name, value in poison.items():
        monkeypatch.setenv(name, value)
    login = Login(shims)
    login.drive(150.0)
    jobs = shims.jobs()
    assert shims.training == 4
    assert all(job["name"].startswith("daddy-tiny-") for job in jobs)
    assert {job["limit"] for job in jobs} == {4 * 3600}
    assert len(jobs) == len(login.kinds("intent")), "what waits is seen, so nothing is doubled"
