"""Tests the parser of squeue's listing: states, reasons, tags, damaged lines."""

import time

import pytest

from Daddy.cluster.orchestrator.controller_types import JobState, WaitReason
from Daddy.cluster.orchestrator.slurm_squeue import (
    FIELDS,
    LISTING,
    GarbledListingError,
    classify_reason,
    job_comment,
    job_name,
    parse_listing,
    parse_state,
    read_job_tags,
)

RUN, TOKEN = "slim_run-0fed50", "0123456789ab"
NAME, COMMENT = job_name(RUN, TOKEN), job_comment(RUN, 12, TOKEN)
USUAL = {
    "JobID": "17",
    "State": "RUNNING",
    "Reason": "None",
    "StartTime": "1795276556",
    "EndTime": "1795290956",
    "exit_code": "0",
    "NodeList": "n1",
    "RestartCnt": "0",
    "Name": NAME,
    "Comment": COMMENT,
}


def line(*values: str) -> str:
    return "".join(f"{value:<40}|" for value in values)


def listing(**changes: str) -> str:
    return line(*{**USUAL, **changes}.values())


def only(**changes: str):
    (job,) = parse_listing(listing(**changes), RUN).jobs
    return job


def test_the_example_has_the_fields_that_are_asked_for() -> None:
    assert tuple(USUAL) == FIELDS
    assert LISTING.count("|") == len(FIELDS)


def test_a_running_job_is_read_whole() -> None:
    job = only(RestartCnt="2")
    assert (job.job_id, job.token, job.state, job.node) == (17, TOKEN, JobState.RUNNING, "n1")
    assert (job.started_ts, job.ends_ts, job.slurm_reason) == (1795276556.0, 1795290956.0, "")
    assert (job.restarts, job.expected_ts) == (2, None)


def test_a_waiting_job_says_why_and_when_it_is_expected_to_start() -> None:
    waiting = {"State": "PENDING", "Reason": "QOSMaxJobsPerUserLimit", "NodeList": ""}
    job = only(**waiting, StartTime="N/A", EndTime="N/A")
    assert (job.state, job.slurm_reason, job.wait_reason) == (
        JobState.PENDING, "QOSMaxJobsPerUserLimit", WaitReason.CAP,
    )  # fmt: skip
    assert (job.started_ts, job.ends_ts, job.expected_ts) == (None, None, None)
    assert only(**waiting).expected_ts == 1795276556.0
    assert only(**waiting).started_ts is None


def test_a_suspended_job_is_no_hang_but_running_with_its_word() -> None:
    job = only(State="SUSPENDED")
    assert (job.state, job.slurm_state) == (JobState.RUNNING, "SUSPENDED")


@pytest.mark.parametrize(
    ("printed", "code"),
    [("2816", 11), ("0", 0), ("9", 137), ("11:0", 11), ("0:9", 137), ("", None)],
)
def test_exit_codes_of_ended_jobs(printed: str, code: int | None) -> None:
    assert only(State="FAILED", exit_code=printed).exit_code == code


def test_jobs_of_another_run_and_of_nobody_are_looked_at_and_not_taken() -> None:
    other = job_comment("slim_run-ffffff", 1, TOKEN)
    text = "\n".join(
        [listing(), listing(JobID="18", Name="wrap", Comment="(null)"),
         listing(JobID="19", Name=job_name("slim_run-ffffff", TOKEN), Comment=other)]
    )  # fmt: skip
    seen = parse_listing(text, RUN)
    assert [job.job_id for job in seen.jobs] == [17]
    assert [(job.job_id, job.token, job.run_id) for job in seen.others] == [
        (18, "", ""), (19, "", "slim_run-ffffff"),
    ]  # fmt: skip


def test_a_strangers_name_with_bars_in_it_does_not_blind_the_controller() -> None:
    text = listing() + "\n" + listing(JobID="18", Name="sweep|lr=1\u2028e-3", Comment="a|b|c")
    seen = parse_listing(text, RUN)
    assert ([job.job_id for job in seen.jobs], len(seen.others)) == ([17], 1)


def test_a_task_of_an_array_is_no_job_of_ours_whatever_it_is_called() -> None:
    seen = parse_listing(listing(JobID="17_3"), RUN)
    assert (seen.jobs, seen.others[0].job_id) == ((), 17)


def test_a_part_of_the_persons_heterogeneous_job_does_not_blind_the_controller() -> None:
    seen = parse_listing(listing() + "\n" + listing(JobID="20+1", Name="mpi", Comment=""), RUN)
    assert ([job.job_id for job in seen.jobs], [job.job_id for job in seen.others]) == ([17], [20])


def test_the_name_still_tells_the_token_when_the_comment_was_lost() -> None:
    assert read_job_tags(NAME, "(null)") == (RUN, TOKEN)
    assert read_job_tags("wrap", COMMENT) == (RUN, TOKEN)
    assert read_job_tags("wrap", "(null)") == ("", "")


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
    seen = parse_listing("", RUN)
    assert (seen.jobs, seen.others) == ((), ())


def test_twenty_thousand_lines_are_read_in_a_second() -> None:
    """Parse 20,000 lines fast (0.2 s when this was written)."""
    text = "\n".join(listing(JobID=str(17 + number % 2 * 20_000)) for number in range(20_000))
    begun = time.process_time()
    assert len(parse_listing(text, RUN).jobs) == 20_000
    assert time.process_time() - begun < 1.5


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
    assert parse_state(word) is state


REASONS = {
    WaitReason.TURN: (
        "", "Priority", "Resources", "BeginTime", "Dependency", "JobHeldUser", "Licenses",
        "ReqNodeNotAvail, UnavailableNodes:n[1-4]",
        "ReqNodeNotAvail, May be reserved for other job",
        "QOSGrpJobsLimit", "QOSGrpGRES", "QOSMaxJobsPerAccountLimit", "QOSMaxGRESPerAccount",
        "AssocGrpCPURunMinutesLimit", "QOSGrpGRESRunMinutes", "SomethingOfNextYear",
    ),
    WaitReason.CAP: (
        "QOSMaxJobsPerUserLimit", "AssocMaxJobsLimit", "QOSMaxGRESPerUser", "QOSMaxCpuPerUserLimit",
        "QOSMaxMemoryPerUser", "AssocGrpGRES", "AssocGrpJobsLimit", "AssocGrpCpuLimit",
        "AssociationJobLimit", "QOSJobLimit",
    ),
    WaitReason.BUDGET: (
        "AssocGrpCPUMinutesLimit", "AssocGrpGRESMinutes", "AssocGrpBillingMinutes",
        "QOSGrpCPUMinutesLimit", "QOSGrpGRESMinutes", "AssocGrpWallLimit", "QOSUsageThreshold",
    ),
    WaitReason.RESERVATION: (
        "ReqNodeNotAvail, Reserved for maintenance", "Reservation",
        "ReqNodeNotAvail(Reserved for maintenance)",
    ),
    WaitReason.ADMIN: ("JobHeldAdmin",),
    WaitReason.CLOSED: ("PartitionDown", "PartitionInactive", "NodeDown"),
    WaitReason.NEVER: (
        "PartitionTimeLimit", "QOSMaxWallDurationPerJobLimit", "AssocMaxWallDurationPerJobLimit",
        "QOSMaxGRESPerJob", "QOSMaxCpuPerNode", "QOSMinGRES", "AssocMaxCpuPerJobLimit",
        "InvalidAccount", "InvalidQOS", "AccountNotAllowed", "BadConstraints",
        "DependencyNeverSatisfied", "ReservationDeleted", "launch failed requeued held",
        "job requeued in held state", "JobHoldMaxRequeue",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "waits"),
    [(reason, waits) for waits, reasons in REASONS.items() for reason in reasons],
)
def test_every_reason_has_its_kind(reason: str, waits: WaitReason) -> None:
    assert classify_reason(reason) is waits
