"""Tests ends of jobs as sacct 22.05.8 prints them."""

import pytest

from Daddy.cluster.orchestrator.controller_types import JobState
from Daddy.cluster.orchestrator.slurm_sacct import parse_ends, sacct_argv

RUN, TOKEN = "tiny-000000", "0123456789ab"
NAME = f"daddy-{RUN}-{TOKEN}"


def ask(text: str, own_id: int = 1000, memory: str = "2G|"):
    """Parse lines, each with the two cells of memory that an allocation has."""
    lines = "".join(f"{line}|{memory}\n" for line in text.splitlines())
    return parse_ends(lines, RUN, {17: TOKEN}, own_id)


def test_somebody_elses_cancel_is_told_and_ones_own_is_not() -> None:
    text = f"17|{NAME}|CANCELLED by 0|0:15|1795287306|1795287328|n1\n"
    (job,) = ask(text)
    assert (job.state, job.slurm_state, job.canceller) == (JobState.ENDED, "CANCELLED", 0)
    assert (job.started_ts, job.ends_ts, job.node) == (1795287306.0, 1795287328.0, "n1")
    assert ask(text, own_id=0)[0].canceller is None


def test_a_job_that_never_started() -> None:
    (job,) = ask(f"17|{NAME}|CANCELLED by 0|0:0|None|1795287328|None assigned\n")
    assert (job.started_ts, job.node) == (None, "")


def test_a_recycled_id_is_told_apart_by_the_name() -> None:
    older = "17|wrap|COMPLETED|0:0|1795287306|1795287328|n1\n"
    assert ask(older) == ()
    (job,) = ask(f"{older}17|{NAME}|FAILED|11:0|1795287306|1795287328|n1\n")
    assert (job.slurm_state, job.exit_code) == ("FAILED", 11)


def test_a_job_that_the_database_still_calls_running_is_no_proof_of_life() -> None:
    assert ask(f"17|{NAME}|RUNNING|0:0|1795287306|Unknown|n1\n") == ()


def test_a_requeued_job_has_not_ended() -> None:
    rows = "".join(
        f"17|{NAME}|{word}|0:0|1795287306|1795287328|n1\n" for word in ("NODE_FAIL", "RUNNING")
    )
    assert ask(rows) == ()


def test_lines_that_are_no_rows_are_passed_over() -> None:
    assert ask("sacct: something went wrong\n\n") == ()


def test_the_memory_of_the_largest_step_is_told_beside_what_was_asked_for() -> None:
    row, step = f"17|{NAME}|OUT_OF_MEMORY|0:125|1|2|n1|2G|\n", "17.{0}|{0}|FAILED|0:9|1|2|n1||{1}\n"
    steps = step.format("batch", "1.5G") + step.format("extern", "812K") + step.format("0", "")
    other = "17|wrap|COMPLETED|0:0|1|2|n1|9G|\n" + step.format("batch", "8G")
    (job,) = parse_ends(other + row + steps, RUN, {17: TOKEN}, 1000)
    assert (job.used_bytes, job.asked_memory) == (3 * 2**29, "2G")
    (job,) = parse_ends(row, RUN, {17: TOKEN}, 1000)
    assert job.used_bytes is None


@pytest.mark.parametrize(
    ("text", "asked"), [("4000Mn", "4000M"), ("2Gc", "2G per CPU"), ("0", "0"), ("", "")]
)
def test_the_notations_of_requested_memory(text: str, asked: str) -> None:
    (job,) = ask(f"17|{NAME}|FAILED|1:0|1|2|n1", memory=f"{text}|")
    assert job.asked_memory == asked


def test_many_are_asked_for_at_once() -> None:
    assert "--jobs=17,18" in sacct_argv([17, 18])
