"""Slurm's words, as printed by 22.05.8, read for what they say."""

from __future__ import annotations

import pytest

from Daddy.cluster.orchestrator.records import JobState
from Daddy.cluster.orchestrator.slurm_states import (
    FIELDS,
    GarbledListingError,
    answered,
    job_comment,
    job_name,
    parse_job_id,
    parse_listing,
    refused_for_good,
    state_of,
    submit_limit_reached,
    token_of,
)

RUN, TOKEN = "slim_run-0fed50", "0123456789ab"
NAME, COMMENT = job_name(RUN, TOKEN), job_comment(RUN, 12, TOKEN)


def line(*values: str) -> str:
    return "".join(f"{value:<40}|" for value in values)


def listing(**changes: str) -> str:
    usual = {
        "JobID": "17",
        "State": "RUNNING",
        "Reason": "None",
        "StartTime": "1795276556",
        "EndTime": "1795290956",
        "exit_code": "0",
        "NodeList": "n1",
        "Name": NAME,
        "Comment": COMMENT,
    }
    return line(*{**usual, **changes}.values())


def test_the_example_has_the_fields_that_are_asked_for() -> None:
    assert listing().count("|") == len(FIELDS)


def test_a_running_job_is_read_whole() -> None:
    ((job,), strangers) = parse_listing(listing(), RUN)
    assert (job.job_id, job.token, job.state, job.node) == (17, TOKEN, JobState.RUNNING, "n1")
    assert (job.started_ts, job.ends_ts, job.why) == (1795276556.0, 1795290956.0, "")
    assert strangers == 0


def test_a_waiting_job_says_why_and_has_not_started() -> None:
    text = listing(State="PENDING", Reason="QOSMaxJobsPerUserLimit", StartTime="N/A", NodeList="")
    ((job,), _) = parse_listing(text, RUN)
    assert (job.state, job.why, job.started_ts) == (
        JobState.PENDING,
        "QOSMaxJobsPerUserLimit",
        None,
    )


@pytest.mark.parametrize(
    ("printed", "code"),
    [("2816", 11), ("0", 0), ("9", 137), ("11:0", 11), ("0:9", 137), ("", None)],
)
def test_exit_codes_of_ended_jobs(printed: str, code: int | None) -> None:
    ((job,), _) = parse_listing(listing(State="FAILED", exit_code=printed), RUN)
    assert job.exit_code == code


def test_jobs_of_others_and_of_another_run_are_counted_and_not_taken() -> None:
    other = job_comment("slim_run-ffffff", 1, TOKEN)
    text = "\n".join(
        [listing(), listing(JobID="18", Name="wrap", Comment="(null)"),
         listing(JobID="19", Name=job_name("slim_run-ffffff", TOKEN), Comment=other)]
    )  # fmt: skip
    jobs, strangers = parse_listing(text, RUN)
    assert ([job.job_id for job in jobs], strangers) == ([17], 2)


def test_a_strangers_name_with_bars_in_it_does_not_blind_the_controller() -> None:
    text = listing() + "\n" + listing(JobID="18", Name="sweep|lr=1\u2028e-3", Comment="a|b|c")
    jobs, strangers = parse_listing(text, RUN)
    assert ([job.job_id for job in jobs], strangers) == ([17], 1)


def test_the_name_still_tells_the_token_when_the_comment_was_lost() -> None:
    assert token_of(RUN, NAME, "(null)") == TOKEN
    assert token_of(RUN, "wrap", COMMENT) == TOKEN
    assert token_of("another", NAME, COMMENT) is None


@pytest.mark.parametrize(
    "text",
    [
        listing()[:200],
        listing() + "\n" + listing()[: len(listing()) - 3],
        "slurm_load_jobs error: Unable to contact slurm controller",
        listing(JobID="n/a"),
        listing() + "extra|",
    ],
)
def test_a_listing_with_a_torn_line_is_no_listing(text: str) -> None:
    with pytest.raises(GarbledListingError):
        parse_listing(text, RUN)


def test_an_empty_listing_is_an_answer() -> None:
    assert parse_listing("", RUN) == ((), 0)


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
