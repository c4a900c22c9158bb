"""Tests the schedule of a soak's faults, and the figures of each fault."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from scripts.soaks.judge import AFTERMATH_S, judge, render_figures
from scripts.soaks.records import Fault
from scripts.soaks.schedule_faults import LASTS_S, plan_faults
from tests.cluster.test_soak_judge import broken, evidence


def test_an_hour_has_every_fault_some_times_in_rounds_and_none_overlaps() -> None:
    times = plan_faults(random.Random(38), 3600.0)
    kinds = [kind for _, kind in times]
    assert all(4 <= kinds.count(kind) <= 7 for kind in LASTS_S)
    assert sorted(kinds[: len(LASTS_S)]) == sorted(LASTS_S)
    assert all(at + LASTS_S[kind][1] < later for (at, kind), (later, _) in pairwise(times))
    last, kind = times[-1]
    assert last + LASTS_S[kind][1] < 3600.0 - 20.0


def test_a_schedule_follows_from_its_seed_and_leaves_out_what_cannot_be_made() -> None:
    once, other = (plan_faults(random.Random(seed), 900.0) for seed in (1, 2))
    assert once == plan_faults(random.Random(1), 900.0)
    assert once != other
    able = set(LASTS_S) - {"full disk"}
    assert {kind for _, kind in plan_faults(random.Random(1), 3600.0, sorted(able))} == able
    assert plan_faults(random.Random(1), 20.0) == []


def test_every_fault_can_be_a_cause() -> None:
    assert set(AFTERMATH_S) == set(LASTS_S)


def test_what_a_fault_cost_stands_in_its_row() -> None:
    healthy = evidence()
    killed, at = healthy.runs[4], healthy.runs[4].ended
    healthy.diaries[4].drain = healthy.diaries[4].bye = None
    healthy.diaries[4].last_step = at - 0.1
    healthy.diaries[4].saves = [at - 6.1]
    fault = Fault("kill job", at - 0.1, at, killed.token)
    runs = [replace(ran, exit_code=9) if ran is killed else ran for ran in healthy.runs]
    found = replace(healthy, runs=runs, faults=[fault, Fault("empty listing", 400.0, 440.0)])
    rows = judge(found)["faults"]
    none = {"times": 1, "gpu_minutes_lost": 0.0, "duplicates": 0, "orphans": 0}
    assert rows == {"empty listing": none, "kill job": {**none, "gpu_minutes_lost": 0.1}}
    twin = replace(runs[0], job_id=99, begun=410.0, ended=411.0)
    stray = replace(runs[0], job_id=98, token="ffffffffffff", begun=412.0, ended=413.0)
    row = judge(replace(found, runs=[*runs, twin, stray]))["faults"]["empty listing"]
    assert (row["duplicates"], row["orphans"]) == (1, 1)


def test_an_empty_slot_counts_for_the_fault_that_caused_it() -> None:
    healthy = evidence()
    late = [ran for ran in healthy.runs if ran.job_id != 6]  # slot 1 is not handed over once
    found = replace(healthy, runs=late, faults=[Fault("full disk", 140.0, 190.0)])
    minutes = judge(found)["faults"]["full disk"]["gpu_minutes_lost"]
    assert minutes == pytest.approx(49.0 / 60, abs=0.05)


def test_a_slot_that_stays_empty_long_after_a_fault_is_unexplained() -> None:
    healthy = evidence(rounds=8)
    handed = [ran for ran in healthy.runs if ran.job_id % 4 != 2 or ran.job_id < 4]
    empty = replace(healthy, runs=handed)  # slot 1 is empty from its first end on
    disk, later = Fault("full disk", 140.0, 150.0), Fault("empty listing", 200.0, 480.0)
    found = broken(replace(empty, faults=[disk, later]))
    assert any("than full disk explains" in text for text in found)
    again = Fault("kill slurmd", 200.0, 480.0, "n2")
    found = broken(replace(empty, faults=[disk, again]))
    assert not any("unexplained" in text for text in found)


@pytest.mark.parametrize("kind", ["empty listing", "kill controller"])
def test_a_fault_that_no_running_job_needs_to_notice_excuses_no_jobs_end(kind: str) -> None:
    healthy = evidence()
    runs = [replace(healthy.runs[0], exit_code=12), *healthy.runs[1:]]
    fault = Fault(kind, 130.0, 170.0)
    assert any(
        "ended FAILED 12" in text for text in broken(replace(healthy, runs=runs, faults=[fault]))
    )


def test_the_table_has_a_row_for_each_fault_and_says_what_broke() -> None:
    fault = Fault("failing setup", 130.0, 170.0)
    usage = {"peak_rss_mb": 41.6, "cpu_s_per_day": 29.8}
    lines = render_figures({**judge(replace(evidence(), faults=[fault])), "controller": usage})
    assert "| failing setup | 1 | 0.0 | 0 | 0 |" in lines
    assert lines[-1] == "broken: nothing"
    assert "most running 4" in lines[-2]
    assert "41.6" in lines[-2]
    left = replace(evidence(), left_over=["job 7 is still there"])
    lines = render_figures({**judge(left), "controller": usage})
    assert lines[-1] == "broken: orphan: job 7 is still there"
    assert "left over 1" in lines[-2]
