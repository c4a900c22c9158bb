"""Slurm's words, as printed by 22.05.8, read for what they say."""

from __future__ import annotations

import pytest

from Daddy.cluster.orchestrator.records import JobState
from Daddy.cluster.orchestrator.slurm_states import (
    answered,
    canceller_of,
    parse_job_id,
    rate_limited,
    refused_for_good,
    state_of,
    submit_limit_reached,
)


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("PENDING", JobState.PENDING),
        ("SPECIAL_EXIT", JobState.PENDING),
        ("RUNNING", JobState.RUNNING),
        ("COMPLETING", JobState.RUNNING),
        ("CONFIGURING", JobState.RUNNING),
        ("SUSPENDED", JobState.RUNNING),
        ("SOMETHING_NEW", JobState.RUNNING),
        ("COMPLETED", JobState.ENDED),
        ("CANCELLED by 1000", JobState.ENDED),
        ("NODE_FAIL", JobState.ENDED),
        ("TIMEOUT", JobState.ENDED),
    ],
)
def test_states(word: str, state: JobState) -> None:
    assert state_of(word) is state


@pytest.mark.parametrize(
    ("printed", "job_id"),
    [
        ("17\n", 17),
        ("17;cluster\n", 17),
        ("Welcome to the cluster\n17\n", 17),
        ("17\nYour quota is 90 % used\n", 17),
        ("", None),
        ("Submitted batch job 17\n", None),
    ],
)
def test_the_id_in_what_sbatch_prints(printed: str, job_id: int | None) -> None:
    assert parse_job_id(printed) == job_id


def test_a_time_out_is_no_answer_and_a_refusal_is() -> None:
    timeout = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
    limit = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy"
    assert not answered(timeout)
    assert not answered("")
    assert answered(limit)
    assert submit_limit_reached("sbatch: error: QOSMaxSubmitJobPerUserLimit")
    assert refused_for_good("sbatch: error: invalid partition specified: nope")
    assert not refused_for_good(limit)


def test_who_cancelled_is_told_by_sacct_alone() -> None:
    assert canceller_of("CANCELLED by 20001") == 20001
    assert canceller_of("CANCELLED") is None


def test_a_wish_to_be_asked_less_often_is_heard_in_any_line() -> None:
    assert rate_limited("squeue: info: RPC rate limited 1 time(s). Sleeping then trying again.\n")
    assert rate_limited("slurm_load_jobs error: RPC rate limit exceeded")
    assert not rate_limited("slurm_load_jobs error: Socket timed out")
