"""A person's own sacct export becomes a workload, or an error names the reason."""

import pytest

from scripts.simulator.scenario import read_export

HEAD = "Submit|Eligible|Start|End|State\n"


def row(wait: int, eligible: str = "2026-03-01T10:00:00") -> str:
    start = f"2026-03-01T{10 + wait // 3600:02}:{wait // 60 % 60:02}:{wait % 60:02}"
    return f"2026-03-01T09:00:00|{eligible}|{start}|2026-03-01T23:59:59|COMPLETED\n"


def test_waits_run_from_eligible_to_start_and_are_sorted() -> None:
    text = HEAD + "".join(row(wait) for wait in range(1900, 0, -95))
    workload = read_export(text, "here")
    assert workload.name == "here"
    assert workload.measured_s == tuple(float(wait) for wait in range(95, 1901, 95))
    assert workload.longest_s == 1900


def test_a_job_that_was_never_eligible_counts_from_its_submission() -> None:
    text = HEAD + row(60, "Unknown") * 20
    assert read_export(text).measured_s == (3660.0,) * 20


def test_jobs_that_never_started_and_torn_lines_are_passed_over() -> None:
    never = "2026-03-01T09:00:00|2026-03-01T09:00:00|Unknown|Unknown|PENDING\n"
    none = "2026-03-01T09:00:00|2026-03-01T09:00:00|None|2026-03-01T09:01:00|CANCELLED by 7\n"
    text = HEAD + row(60) * 25 + never + none + "2026-03-01T09:00:00|2026"
    assert len(read_export(text).measured_s) == 25


def test_stamps_in_seconds_and_more_columns_are_understood() -> None:
    text = "JobID|Submit|Eligible|Start|End|State\n" + "7|100|100|160|400|COMPLETED\n" * 20
    assert set(read_export(text).measured_s) == {60.0}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no column Eligible"),
        ("JobID|Start\n", "no column Eligible"),
        (HEAD + row(60) * 3, "it has 3 started jobs, and 20 are needed"),
    ],
)
def test_too_little_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_export(text)
