"""Where jobs run, under which name, and what is asked for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.executors import choose_executor, run_id, slurm_request
from Daddy.core.config import run_paths
from Daddy.core.errors import SchedulerError
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
    one, two = config_of(tmp_path, run_name="slim"), config_of(tmp_path)  # type: ignore[arg-type]
    names = {
        run_id(settings, run_paths(settings.model_copy(update={"run_dir": str(folder)})))
        for settings in (one, two)
        for folder in (tmp_path / "a", tmp_path / "b")
    }
    assert len(names) == 4
