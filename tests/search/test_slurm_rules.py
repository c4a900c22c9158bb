"""A sweep submits a job where it takes no controller's place, and knows how a job ended."""

from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.controller_types import (
    JobState,
    QueueJob,
    SiteLimits,
    Snapshot,
    WaitReason,
)
from Daddy.core.clock import SystemClock
from Daddy.core.errors import ConfigError, ExitCode, SchedulerError
from Daddy.core.lease import Lease, read_lease
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config
from Daddy.search.slurm_executor import SlurmExecutor, end_slots, with_job_settings
from Daddy.search.slurm_rules import find_job_refusal, read_exit_codes
from Daddy.search.sweep_files import SweepPaths

FOUR = SiteLimits(max_running=4)


def job(number: int, run: str = "", state: JobState = JobState.RUNNING, **more: object) -> QueueJob:
    facts = {"slurm_state": state.name, "run_id": run, **more}
    return QueueJob(number, "", state, **facts)  # type: ignore[arg-type]


def room(
    *others: QueueJob,
    ours: int = 0,
    jobs: int = 4,
    site: SiteLimits = FOUR,
    **slots: int,
) -> str:
    return find_job_refusal(Snapshot(0.0, (), others), ours, jobs, slots, site)


def test_an_empty_queue_has_room_up_to_the_jobs_of_the_sweep() -> None:
    assert room(ours=1, jobs=2) == ""
    assert room(ours=2, jobs=2) == "2 of at most 2 jobs of this sweep wait or run"


def test_each_other_job_of_the_person_takes_a_place() -> None:
    others = [job(1), job(2, state=JobState.PENDING), job(3, "sweep+other-1a2b3c")]
    assert room(*others) == ""
    assert "1 by this sweep, 3 by other jobs" in room(*others, ours=1)
    assert room(*others, job(4, state=JobState.ENDED)) == ""


def test_a_controller_keeps_its_four_places_between_two_jobs() -> None:
    pending = job(1, "mine-1a2b3c", JobState.PENDING)
    assert "4 for the slots of mine-1a2b3c" in room(pending)
    assert room(pending, site=SiteLimits(max_running=5)) == ""
    assert "4 for the slots of mine" in room(mine=4), "alive, though it has no job now"


def test_a_controller_counts_with_its_slots_and_a_successor_takes_no_place() -> None:
    successors = [job(number, "mine", JobState.PENDING) for number in range(3, 5)]
    running = [job(number, "mine") for number in range(1, 3)]
    assert room(*running, *successors, mine=2) == ""
    assert "2 for the slots of mine" in room(*running, *successors, mine=2, ours=2)
    more = [job(number, "mine") for number in range(1, 4)]
    assert "3 for the slots of mine" in room(*more, mine=2, ours=1), "it has three jobs still"


def test_where_the_limit_is_unknown_a_job_that_waits_for_it_tells() -> None:
    waits = job(7, state=JobState.PENDING, wait_reason=WaitReason.CAP)
    assert room(job(1), job(2, "mine"), site=SiteLimits()) == ""
    assert room(waits, site=SiteLimits()) == "job 7 waits for the site's limit of running jobs"


def test_room_for_the_successors_of_a_controller_is_left() -> None:
    site = SiteLimits(max_submitted=8)
    assert "the site takes 8 jobs" in room(job(1, "mine"), site=site)
    assert room(job(1, "mine"), site=site, mine=3) == ""


@pytest.mark.parametrize(
    ("said", "state", "code", "expected"),
    [
        (0, "COMPLETED", 0, 0),
        (93, "CANCELLED", 0, 93),
        (None, "FAILED", 127, 127),
        (None, "CANCELLED", 0, ExitCode.DRAINED),
        (None, "NODE_FAIL", 1, ExitCode.DRAINED),
        (11, "FAILED", 11, ExitCode.DRAINED),
    ],
)
def test_a_job_that_slurm_ended_is_continued(
    said: int | None, state: str, code: int, expected: int
) -> None:
    ended = job(1, state=JobState.ENDED, slurm_state=state, exit_code=code)
    goodbyes = {} if said is None else {0: said}
    assert read_exit_codes(goodbyes, 1, ended) == {0: expected}


def test_a_job_of_which_nobody_knows_is_continued() -> None:
    assert read_exit_codes({}, 1, None) == {0: ExitCode.DRAINED}


@pytest.mark.parametrize(
    ("goodbyes", "state", "code", "expected"),
    [
        ({0: 8}, "FAILED", 9, {0: 8, 1: None}),
        ({}, "FAILED", 127, {0: 127, 1: 127}),
        ({0: 8}, "NODE_FAIL", 8, {0: 8, 1: ExitCode.DRAINED}),
        ({0: 0}, "COMPLETED", 0, {0: 0, 1: 0}),
    ],
)
def test_a_rank_without_a_goodbye_was_lost_unless_slurm_knows_more(
    goodbyes: dict[int, int], state: str, code: int, expected: dict[int, int | None]
) -> None:
    ended = job(1, state=JobState.ENDED, slurm_state=state, exit_code=code)
    assert read_exit_codes(goodbyes, 2, ended) == expected


def test_the_learner_knows_the_time_limit_of_its_job() -> None:
    config = with_job_settings(Config(), ["time=0:30:00"], 1, {"SBATCH_PARTITION": "short"})
    assert (config.slurm.time_limit, config.slurm.partition) == ("0:30:00", "short")
    with pytest.raises(ConfigError, match="--sbatch mem has no value"):
        with_job_settings(Config(), ["mem"], 1, {})
    for name in ("job-name", "ntasks"):
        with pytest.raises(ConfigError, match=f"--sbatch {name} belongs to the run"):
            with_job_settings(Config(), [f"{name}=2"], 1, {})


def test_gpus_are_counted_for_each_node_of_a_job() -> None:
    config = Config.model_validate({"slurm": {"gpu_option": "gpus"}})
    assert with_job_settings(config, [], 1, {}).slurm.gpu_option == "gpus"
    assert with_job_settings(config, [], 2, {}).slurm.gpu_option == "gpus-per-node"


def test_without_slurm_the_sweep_does_not_begin(tmp_path: Path) -> None:
    with pytest.raises(SchedulerError, match="no sbatch"):
        SlurmExecutor(SweepPaths(tmp_path), Config(), [], 1, 1, {"PATH": ""}, SystemClock())


def test_the_slots_of_a_job_that_slurm_has_ended_are_free(tmp_path: Path) -> None:
    slots = [RunPaths(tmp_path).slot(rank).lease for rank in (0, 1)]
    for slot in slots:
        assert Lease.acquire(slot, {"host": "n1", "token": "of a lost job"})
    end_slots(tmp_path, 2, {"of another job"})
    view = read_lease(slots[0])
    assert view
    assert view.ended is None
    end_slots(tmp_path, 2, {"of a lost job"})
    assert all(Lease.acquire(slot, {"host": "n2"}) for slot in slots)
