"""Tests the soak's checks on made-up logs, with and without violations."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.soaks.judge import Evidence, judge
from scripts.soaks.records import Diary, Fault, Ran, read_completions, read_diaries

JOB_S = 48.0
GAP_S = 0.5


def stay(number: int, slot: int, begun: float, code: int = 10) -> tuple[Ran, Diary]:
    """Make a job: a second of boot, training with saves, half a second of drain."""
    token, ended = f"{number:012x}", begun + JOB_S
    ran = Ran(number, token, f"n{slot + 1}", begun, ended, "FAILED", code)
    diary = Diary(token, slot, number, begun + 0.8, 100 + number, begun + 1.0, ended - 0.2)
    diary.saves = [begun + second for second in range(2, 48, 2)]
    diary.drain, diary.bye = ended - 0.5, ended - 0.1
    return ran, diary


def evidence(rounds: int = 3, slots: int = 4) -> Evidence:
    """Make the logs of a healthy soak with hand-overs of half a second."""
    made = [
        stay(1 + turn * slots + slot, slot, 100.0 + slot + turn * (JOB_S + GAP_S))
        for turn in range(rounds)
        for slot in range(slots)
    ]
    runs = [ran for ran, _ in made]
    begun, ended = 104.0, min(ran.ended for ran in runs[-slots:]) - 1.0
    known = frozenset(ran.token for ran in runs)
    return Evidence(begun, ended, slots, runs, [diary for _, diary in made], [], known, [])


def broken(found: Evidence) -> list[str]:
    return [str(text) for text in judge(found)["broken"]]


def test_a_healthy_soak_is_found_healthy_and_its_time_is_accounted_for() -> None:
    figures = judge(evidence())
    assert figures["broken"] == []
    assert figures["gap_p50_s"] == pytest.approx(GAP_S)
    assert figures["handovers"] == 8
    time = figures["time"]
    assert time["boot_s"] == pytest.approx(12.0)
    assert time["drain_s"] == pytest.approx(6.0)
    assert time["training_s"] == pytest.approx(12 * (JOB_S - 1.5))
    assert figures["residue"] == pytest.approx(0.0)


def test_a_token_with_two_jobs_and_a_zombie_that_saves_are_duplicates() -> None:
    healthy = evidence()
    twin = replace(healthy.runs[0], job_id=99, begun=900.0, ended=901.0)
    assert any("as jobs" in text for text in broken(replace(healthy, runs=[*healthy.runs, twin])))
    zombie = evidence()
    zombie.diaries[0].saves.append(zombie.diaries[4].saves[0] + 1.0)
    assert any("saved after" in text for text in broken(zombie))


def test_jobs_that_nobody_knows_and_what_is_left_over_are_orphans() -> None:
    healthy = evidence()
    assert any("not in the ledger" in text for text in broken(replace(healthy, known=frozenset())))
    assert any("orphan: job x" in text for text in broken(replace(healthy, left_over=["job x"])))


def test_more_than_the_cap_is_found() -> None:
    healthy = evidence()
    fifth, _ = stay(50, 0, 110.0)
    more = replace(healthy, runs=[*healthy.runs, fifth], known=healthy.known | {fifth.token})
    assert "5 jobs ran at once" in broken(more)


def test_a_place_that_stood_empty_needs_a_fault_that_explains_it() -> None:
    healthy = evidence()
    late = [ran for ran in healthy.runs if ran.job_id != 6]  # slot 1 is not handed over once
    empty = replace(healthy, runs=late)
    assert any("unexplained" in text for text in broken(empty))
    fault = Fault("freeze slurmctld", 140.0, 190.0)
    assert not any("unexplained" in text for text in broken(replace(empty, faults=[fault])))


def test_a_job_that_crashed_needs_a_fault_that_hit_it() -> None:
    healthy = evidence()
    runs = [replace(healthy.runs[0], exit_code=9), *healthy.runs[1:]]
    hit = Fault("kill job", 147.0, 147.1, runs[0].token)
    missed = Fault("kill job", 147.0, 147.1, "somebody else")
    assert any("ended FAILED 9" in text for text in broken(replace(healthy, runs=runs)))
    assert broken(replace(healthy, runs=runs, faults=[hit])) == []
    assert broken(replace(healthy, runs=runs, faults=[missed])) != []


def test_slurms_two_logs_are_read_together() -> None:
    completed = (
        "JobId=7 UserId=root(0) Name=daddy-soak-86582b-560a29c6ca56 JobState=FAILED TimeLimit=1 "
        "StartTime=2026-11-21T19:23:17 EndTime=2026-11-21T19:23:46 NodeList=n4 ExitCode=10:0 \n"
        "JobId=8 Name=thesis StartTime=2026-11-21T19:23:17 EndTime=2026-11-21T19:23:46 \n"
        "JobId=9 Name=daddy-soak-86582b-000000000000 StartTime=Unknown EndTime=Unknown \n"
    )
    log = (
        "[2026-11-21T19:23:17.250] sched: Allocate JobId=7 NodeList=n4 #CPUs=8 Partition=gpu\n"
        "[2026-11-21T19:23:46.125] _job_complete: JobId=7 WEXITSTATUS 10\n"
        "[2026-11-21T19:23:46.750] _job_complete: JobId=7 done\n"
    )
    (ran,) = read_completions(completed, log, "daddy-soak-")
    assert (ran.job_id, ran.token, ran.node, ran.exit_code) == (7, "560a29c6ca56", "n4", 10)
    assert ran.ended - ran.begun == pytest.approx(29.5)


def test_a_job_that_a_restarted_slurmctld_completes_twice_was_one_job() -> None:
    row = "JobId=7 Name=daddy-soak-86582b-{} JobState={} StartTime=2026-11-21T19:23:17 "
    row += "EndTime=2026-11-21T19:{} NodeList=n4 ExitCode={} \n"
    mine, other = "560a29c6ca56", "000000000000"
    twice = row.format(mine, "FAILED", "23:46", "10:0") + row.format(mine, "TIMEOUT", "24:30", "0")
    (ran,) = read_completions(twice, "", "daddy-soak-")
    assert (ran.state, ran.exit_code, ran.ended - ran.begun) == ("FAILED", 10, 73.0)
    assert len(read_completions(twice + row.format(other, "FAILED", "24:50", "1"), "", "da")) == 2


def test_a_learner_that_outlives_its_node_in_slurms_eyes_trained_no_longer_than_its_job() -> None:
    healthy = evidence()
    first = healthy.diaries[0]
    first.bye = first.drain = healthy.runs[0].ended + 7.0
    times = judge(healthy)["time"]
    assert times["drain_s"] >= 0.0
    assert times["residue_s"] == pytest.approx(0.0, abs=0.1)


def test_a_diary_ends_where_its_writer_was_killed(tmp_path: Path) -> None:
    born = {"what": "born", "at": 5.0, "token": "x", "slot": 2, "term": 3, "pid": 9}
    lines = [born, {"what": "step", "at": 6.0}, {"what": "save", "at": 7.0}]
    text = "\n".join(json.dumps(line) for line in lines) + '\n{"what": "st'
    (tmp_path / "x-9.jsonl").write_text(text)
    (diary,) = read_diaries(tmp_path)
    assert (diary.slot, diary.first_step, diary.saves, diary.bye) == (2, 6.0, [7.0], None)


def test_time_after_a_learners_last_word_is_residue_unless_slurm_was_silent() -> None:
    healthy = evidence()
    for diary in healthy.diaries[:4]:
        diary.bye = diary.last_step = diary.drain = diary.drain - 20.0
    figures = judge(healthy)
    assert figures["time"]["residue_s"] == pytest.approx(80, abs=5)
    assert any("residue" in str(text) for text in figures["broken"])
    frozen = replace(healthy, faults=[Fault("freeze slurmctld", 120.0, 150.0)])
    assert judge(frozen)["time"]["silent_slurm_s"] == pytest.approx(80, abs=5)
    assert judge(frozen)["residue"] == pytest.approx(0.0)
