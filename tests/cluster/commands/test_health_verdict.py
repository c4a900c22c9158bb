"""Health of a run: one word, one sentence and one exit code."""

from typing import Any

from Daddy.cluster.orchestrator.commands.health_verdict import (
    assess_health,
    describe_late_version,
    slot_state,
)
from Daddy.core.humanize import format_time

SLOT = {
    "slot": 0,
    "job_id": 17,
    "training": True,
    "leaving": False,
    "word": "RUNNING",
    "beat_s": 2.0,
    "beat": {"steps_per_second": 120.0},
}
EMPTY = {**SLOT, "slot": 1, "training": False, "job_id": None, "beat": {}, "beat_s": None}
WAITING = {
    "job_id": 21,
    "after": None,
    "held": False,
    "state": "pending",
    "why": "Priority",
    "waits": "turn",
}
WELL: dict[str, Any] = {
    "damage": "",
    "mode": "run",
    "why": "",
    "daemon": True,
    "queue": {"known": True, "running": 2, "pending": 1},
    "slots": [SLOT, {**SLOT, "slot": 1}],
    "waiting": [WAITING],
    "controller": {"alive": True},
    "breaker": [],
    "rollout": "",
    "late": "",
    "full": "",
    "failover": None,
    "passed_s": 4.0,
    "ts": 96.0,
    "age_s": 4.0,
    "intent_ts": None,
    "started_s": 4000.0,
}


def told(**changes: Any) -> tuple[str, str]:
    status = {**WELL, **changes}
    status["slots"] = [{**slot, "state": slot_state(slot)} for slot in status["slots"]]
    verdict = assess_health(status)
    return verdict.word, verdict.sentence


def test_all_is_well_is_said_in_one_line() -> None:
    assert told() == ("healthy", "all is well: 2 of 2 slots train")


def test_who_boots_does_not_train_yet_and_is_no_trouble() -> None:
    boots = {**SLOT, "beat": {"stage": "loading"}}
    assert told(slots=[SLOT, boots]) == ("healthy", "all is well: 1 of 2 slots train, 1 boots")
    assert told(slots=[boots, boots])[1] == "all is well: 0 of 2 slots train, 2 boot"
    for other in ({"leaving": True}, {"beat": {"stage": "leaving"}}):
        assert "boot" not in told(slots=[SLOT, {**boots, **other}])[1], "it had its time"


def test_an_empty_slot_is_told_with_what_the_next_job_waits_for() -> None:
    slots = [SLOT, {**SLOT, "slot": 1, "training": False}]
    word, said = told(slots=slots)
    assert word == "degraded"
    assert said == "1 of 2 slots train, job 21 waits its turn (Priority)"
    capped = {**WAITING, "waits": "cap", "why": "AssocMaxJobsLimit"}
    _, said = told(slots=slots, waiting=[capped])
    assert "your jobs are at their limit (AssocMaxJobsLimit)" in said


def test_a_slot_without_a_sign_of_life_does_not_train() -> None:
    assert told(slots=[SLOT, {**SLOT, "beat_s": 184.0}])[1].startswith("1 of 2 slots train")


def test_the_breaker_s_reason_is_the_sentence() -> None:
    hold = {"reason": "5 failures in a row: next try in an hour"}
    slots = [{**SLOT, "training": False}] * 2
    assert told(slots=slots, breaker=[hold])[1] == f"0 of 2 slots train: {hold['reason']}"


def test_a_full_fleet_on_the_last_good_release_is_healthy_and_says_so() -> None:
    word, said = told(rollout="release b is given up for a: exit code 1")
    assert word == "healthy"
    assert said == "2 of 2 slots train; release b is given up for a: exit code 1"


def test_a_silent_scheduler_is_unknown_and_the_beats_are_told_all_the_same() -> None:
    queue = {"known": False, "why": "Socket timed out"}
    word, said = told(queue=queue, age_s=200.0)
    assert word == "unknown"
    assert "2 of 2 slots have a heartbeat" in said
    assert "the state of 3 min ago" in said


def test_a_stopped_run_stays_stopped_when_the_scheduler_is_silent() -> None:
    queue = {"known": False, "why": "Socket timed out"}
    assert told(mode="stopped", queue=queue)[0] == "healthy"


def test_a_run_that_is_over_says_since_when() -> None:
    asked = {"ts": 1_700_000_000.0, "age_s": 7200.0, "intent_ts": 1_700_000_000.0 - 60.0}
    since = format_time(asked["intent_ts"], 1_700_007_200.0)
    queue = {"known": False, "why": "the dashboard does not ask the scheduler"}
    for mode, said in (
        ("stopped", f"the run was stopped at {since}, as asked"),
        ("done", f"the run finished at {since}: all steps were made"),
    ):
        assert told(mode=mode, queue=queue, **asked)[1] == said


def test_a_drain_goes_on_until_the_last_job_has_left() -> None:
    assert told(mode="drain")[1] == "stopping: 3 jobs still to exit"
    nobody = {"known": True, "running": 0, "pending": 0}
    assert (
        told(mode="done", queue=nobody, why="9 of 9 steps")[1] == "the run finished: 9 of 9 steps"
    )


def test_a_run_that_nobody_looks_after_is_degraded_and_down_without_jobs() -> None:
    assert told(controller={"alive": False})[0] == "degraded"
    nobody = {"known": True, "running": 0, "pending": 0}
    beating = told(controller={"alive": False}, queue=nobody)
    assert beating == ("degraded", "2 of 2 slots train, but no controller is alive: start it")
    slots = [{**SLOT, "beat_s": None}, {**SLOT, "beat_s": 900.0}]
    assert told(controller={"alive": False}, queue=nobody, slots=slots)[0] == "down"
    assert told(mode=None, queue=nobody) == ("down", "no run was ever started here")
    word, said = told(mode=None)
    assert word == "degraded"
    assert said.startswith("3 jobs of this run are in the queue, and nothing is recorded here")


def test_jobs_that_make_the_passes_of_a_dead_controller_are_told() -> None:
    word, said = told(controller={"alive": False}, failover={"on": True, "how": ""})
    assert word == "degraded"
    assert "the jobs make its passes" in said
    _, said = told(controller={"alive": False}, failover={"on": True, "how": ""}, passed_s=4000.0)
    assert "but no controller is alive: start it" in said


RHYTHM = [30.0 * n for n in range(9)]
"""Ages of versions that came every 30 seconds."""


def test_a_full_disk_is_the_sentence() -> None:
    verdict, said = told(full="No space left on device: /shared/run/controller")
    assert verdict == "degraded"
    assert said.startswith("No space left on device: /shared/run/controller; once that is mended")
    assert said.endswith("by the last heartbeats 2 of 2 slots train")
    held = {"slot": 0, "reason": "1 failure in slot 0 (exit code 9)"}
    assert "No space" in told(full="No space left", breaker=[held], slots=[SLOT, EMPTY])[1]


def test_a_version_is_late_by_the_runs_own_rhythm() -> None:
    assert describe_late_version(RHYTHM, 9_999.0) == ""
    assert describe_late_version([100.0 + age for age in RHYTHM], 9_999.0) == ""
    late = describe_late_version([720.0 + age for age in RHYTHM], 9_999.0)
    assert late == "no version of the weights came for 12 min (usual: 30 s)"
    rare = [720.0 + 20.0 * age for age in RHYTHM]
    assert describe_late_version(rare, 9_999.0) == "", "ten minutes are usual here"
    paused = [720.0, 730.0, 760.0, 90_000.0, 90_030.0]
    assert describe_late_version(paused, 9_999.0).endswith("(usual: 30 s)"), "a night is no rhythm"


def test_no_version_is_late_before_a_job_has_trained_for_so_long() -> None:
    assert describe_late_version([90_000.0 + age for age in RHYTHM], 60.0) == ""
    assert describe_late_version([], 9_999.0) == ""
    assert describe_late_version([500.0], 500.0) == ""
    first = describe_late_version([720.0], 720.0)
    assert first == "no version of the weights came for 12 min"


def test_a_full_fleet_without_a_new_version_is_degraded() -> None:
    late = "no version of the weights came for 12 min (usual: 30 s)"
    word, said = told(late=late)
    assert word == "degraded"
    assert said == f"2 of 2 slots train, but {late}: type `run_controller logs`"


def test_a_suspended_job_does_not_train_and_is_not_called_silent() -> None:
    suspended = {**SLOT, "slot": 1, "word": "SUSPENDED", "beat_s": 300.0}
    word, said = told(slots=[SLOT, suspended])
    assert (word, said) == ("degraded", "1 of 2 slots train, 1 is suspended by Slurm")


def test_jobs_that_cannot_start_are_trouble_also_while_all_slots_train() -> None:
    down = {**WAITING, "waits": "closed", "why": "PartitionDown"}
    but = "2 of 2 slots train, but job 21 cannot start now (PartitionDown)"
    assert told(waiting=[down]) == ("degraded", but)
    never = {**WAITING, "waits": "never", "why": "BadConstraints"}
    assert told(waiting=[WAITING, never])[0] == "degraded"
    assert told(waiting=[{**down, "held": True}])[0] == "healthy", "we hold it ourselves"


def test_closed_partitions_are_trouble_while_jobs_wait_for_another_reason() -> None:
    queue = {**WELL["queue"], "closed": "partition gpu is down"}
    waits = {**WAITING, "why": "Dependency", "after": 17}
    but = "2 of 2 slots train, but no further job can start (partition gpu is down)"
    assert told(queue=queue, waiting=[waits]) == ("degraded", but)
    assert told(queue=queue, waiting=[{**waits, "held": True}])[0] == "healthy"
    assert told(queue=queue, waiting=[])[0] == "healthy"
    empty = {"queue": queue, "slots": [EMPTY], "waiting": [WAITING], "started_s": 3.0}
    word, said = told(**empty)
    assert word == "degraded"
    assert said.startswith("0 of 1 slots train, job 21 waits its turn (Priority), no further job")


def test_an_sbatch_without_an_answer_is_trouble_with_its_own_words() -> None:
    word, said = told(unsubmitted="sbatch: error: Socket timed out")
    assert word == "degraded"
    assert said.endswith("no further job gets into the queue (sbatch: error: Socket timed out)")


def test_a_hold_is_trouble_also_while_all_slots_train() -> None:
    hold = {"reason": "5 failures in a row: next try in an hour"}
    assert told(breaker=[hold]) == ("degraded", f"2 of 2 slots train, but {hold['reason']}")


def test_a_minute_after_a_start_empty_slots_are_no_trouble() -> None:
    unseen = {**WAITING, "state": "unseen", "why": "the scheduler has not shown it yet"}
    empty = {"slots": [{**SLOT, "training": False}] * 2, "waiting": [unseen]}
    said = "starting: 0 of 2 slots train, job 21 is not listed yet"
    assert told(started_s=3.0, **empty) == ("healthy", said)
    assert told(started_s=61.0, **empty)[0] == "degraded"
    assert told(started_s=3.0, controller={"alive": False}, **empty)[0] == "degraded"
    down = {**WAITING, "waits": "closed", "why": "PartitionDown"}
    assert told(started_s=3.0, **{**empty, "waiting": [down]})[0] == "degraded"


def test_a_job_that_slurm_still_ends_is_told_with_its_node() -> None:
    queue = {"known": True, "running": 0, "pending": 0, "ending": [{"job_id": 17, "node": "n3"}]}
    cause = "job 17 on n3 ends (COMPLETING: the site's epilog, or a process that does not end)"
    assert told(mode="drain", queue=queue)[1] == f"stopping: 1 job still to exit, {cause}"
    empty = {**SLOT, "slot": 1, "training": False}
    assert told(queue=queue, slots=[SLOT, empty], waiting=[])[1].endswith(cause)


def test_the_other_run_that_holds_the_cap_is_named() -> None:
    queue = {"known": True, "running": 0, "pending": 2, "other_runs": {"b-123abc": 4}}
    capped = {**WAITING, "waits": "cap", "why": "QOSMaxJobsPerUserLimit"}
    _, said = told(queue=queue, slots=[{**SLOT, "training": False}], waiting=[capped])
    assert said.endswith("(QOSMaxJobsPerUserLimit): your other run b-123abc has 4 jobs running")


def test_slots_beyond_the_wanted_ones_are_shown_as_leaving() -> None:
    slots = [SLOT, {**SLOT, "slot": 1, "surplus": True}, {**SLOT, "slot": 2, "surplus": True}]
    assert [slot_state(slot) for slot in slots] == ["trains", "leaves", "leaves"]
    assert told(slots=slots) == ("healthy", "all is well: 1 of 1 slots train, 2 more leave")
