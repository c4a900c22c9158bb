"""Tests the choice of the executor, and the job specifications."""

from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.action_types import Submit
from Daddy.cluster.orchestrator.scheduler_factory import (
    SpecMaker,
    choose_executor,
    run_id,
    slurm_request,
)
from Daddy.cluster.release_build import Release
from Daddy.core.atomic_files import write_atomic
from Daddy.core.errors import SchedulerError
from Daddy.core.load_config import config_to_json, run_paths
from tests.cluster.conftest import config_of


def test_slurm_is_used_where_sbatch_is_found_unless_the_settings_say_local(tmp_path: Path) -> None:
    sbatch = tmp_path / "sbatch"
    sbatch.write_text("#!/bin/sh\n")
    sbatch.chmod(0o755)
    login, laptop = {"PATH": str(tmp_path)}, {"PATH": str(tmp_path / "nothing")}
    assert choose_executor(config_of(tmp_path), login) == "slurm"
    assert choose_executor(config_of(tmp_path), laptop) == "local"
    local = config_of(tmp_path, controller={"executor": "local"})
    assert choose_executor(local, login) == "local"
    with pytest.raises(SchedulerError, match="no sbatch"):
        choose_executor(config_of(tmp_path, controller={"executor": "slurm"}), laptop)


def test_what_is_left_open_is_left_to_the_site(tmp_path: Path) -> None:
    settings = config_of(tmp_path, slurm={"gpus_per_job": 0})
    assert set(slurm_request(settings)) == {"partition", "cpus-per-task"}


def test_two_runs_of_one_name_in_two_places_are_two_runs(tmp_path: Path) -> None:
    first, two = config_of(tmp_path, run_name="slim"), config_of(tmp_path)  # type: ignore[arg-type]
    names = {
        run_id(settings, run_paths(settings.model_copy(update={"run_dir": str(folder)})))
        for settings in (first, two)
        for folder in (tmp_path / "a", tmp_path / "b")
    }
    assert len(names) == 4


def test_every_slurm_setting_reaches_the_job_script(tmp_path: Path) -> None:
    settings = config_of(
        tmp_path,
        slurm={
            "partition": "p", "account": "a", "qos": "q", "time_limit": "1:30:00",
            "cpus_per_job": 3, "gpus_per_job": 2, "memory": "16G", "mem_per_gpu": "20G",
            "exclude": ["n7", "n9"], "setup": ["module load cuda"],
        },
    )  # fmt: skip
    make = SpecMaker(settings, run_paths(settings), Release("r1", tmp_path / "r1"))
    spec = make("0" * 12, 5, Submit("successor", 77, exclude=("n8", "n9")))
    assert spec.request == {
        "partition": "p", "account": "a", "qos": "q", "cpus-per-task": 3, "gres": "gpu:2",
        "mem": "16G", "mem-per-gpu": "20G", "exclude": "n7,n9,n8",
    }  # fmt: skip
    assert (spec.time_limit_s, spec.after, spec.setup) == (5400, 77, ("module load cuda",))
    assert spec.argv[1:] == (
        "-m", "Daddy.cluster.launch", "--run", str(run_paths(settings).root),
        "--config", str(tmp_path / "r1" / "config.json"), "--attempt", "0" * 12,
    )  # fmt: skip
    assert spec.environment["PYTHONPATH"] == str(tmp_path / "r1")
    assert spec.warn_s == 180


def request_of(tmp_path: Path, **slurm: object) -> dict[str, str | int]:
    return slurm_request(config_of(tmp_path, slurm={"cpus_per_job": 1, **slurm}))


def test_gpus_are_asked_for_by_type_and_by_the_option_that_the_site_wants(tmp_path: Path) -> None:
    usual = {"partition": "gpu-linuxlab", "cpus-per-task": 1}
    typed = {"gpu_type": "a100", "gpus_per_job": 2}
    assert request_of(tmp_path, **typed) == {**usual, "gres": "gpu:a100:2"}
    assert request_of(tmp_path, **typed, gpu_option="gpus") == {**usual, "gpus": "a100:2"}
    each = request_of(tmp_path, gpu_option="gpus-per-node")
    assert each == {**usual, "gpus-per-node": "1"}
    assert request_of(tmp_path, gpus_per_job=0, gpu_type="a100") == usual


def test_what_a_site_may_want_besides_is_asked_for(tmp_path: Path) -> None:
    assert request_of(
        tmp_path, partition=["a", "b"], constraint="big|small", reservation="course",
        licenses="sim:1", gpus_per_job=0, options=["--exclusive", "--gres=shard:2", "--nice=a=b"],
    ) == {
        "partition": "a,b", "constraint": "big|small", "reservation": "course", "licenses": "sim:1",
        "cpus-per-task": 1, "exclusive": True, "gres": "shard:2", "nice": "a=b",
    }  # fmt: skip
    assert request_of(tmp_path, partition="", account="", gpus_per_job=0) == {"cpus-per-task": 1}


def test_a_release_that_is_tried_is_tried_in_the_resources_it_asks_for(tmp_path: Path) -> None:
    old = config_of(tmp_path, slurm={"partition": "closed", "time_limit": "4:00:00"})
    new = config_of(tmp_path, slurm={"partition": "open", "time_limit": "1:00:00", "memory": "64G"})
    run = run_paths(old)
    make = SpecMaker(old, run, Release("good", run.releases / "good"))
    wish = Submit("a slot is empty", release="good", request="new")
    assert make("0" * 12, 1, wish).request["partition"] == "closed"  # not on disk yet
    write_atomic(run.releases / "new" / "config.json", config_to_json(new))
    spec = make("0" * 12, 2, wish)
    assert (spec.request["partition"], spec.request["mem"]) == ("open", "64G")
    assert (spec.time_limit_s, spec.environment["DADDY_RELEASE"]) == (3600, "good")
