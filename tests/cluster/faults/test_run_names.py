"""Tests that a new ``run_name`` is a label: the run's jobs keep their mark in the queue."""

import shutil
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.control_files import read_identity
from Daddy.cluster.orchestrator.controller_types import JobOutcome, Mode
from Daddy.cluster.orchestrator.scheduler_factory import fix_run_id, run_id
from Daddy.cluster.release_build import Release
from Daddy.core.errors import FileError, SchedulerError
from Daddy.core.load_config import config_to_json
from Daddy.core.run_paths import RunPaths
from tests.cluster.faults.site import Login, Site


def rename(login: Login, name: str) -> None:
    """Do what ``start`` does after ``run_name`` changed, beside a live controller."""
    login.config = login.config.model_copy(update={"run_name": name})
    fix(login)
    login.release = Release(f"r-{name}", login.run.releases / f"r-{name}")
    login.release.path.mkdir()
    login.release.config.write_bytes(config_to_json(login.config))
    login.intend(Mode.RUN)


def fix(login: Login, run: RunPaths | None = None) -> str:
    return fix_run_id("slurm", login.config, run or login.run, login.site.clock)


def marks(site: Site) -> set[str]:
    return {job["name"].rpartition("-")[0] for job in site.jobs()}


@pytest.mark.parametrize("begun_before", [False, True])
def test_a_new_run_name_keeps_every_job(site: Site, login: Login, begun_before: bool) -> None:
    """1. A controller lives. 2. The name changes. 3. Jobs follow each other. 4. It is replaced."""
    if not begun_before:
        fix(login)
    login.settle()
    before, count = marks(site), len(login.kinds("submitted"))
    if begun_before:  # its controller, of the release before, is stopped for the new name
        login.controller = None
    rename(login, "other")
    login.drive(3600.0)
    login.start()
    login.drive(3600.0)
    assert {attempt.outcome for attempt in login.ledger.attempts} <= {None, JobOutcome.DRAINED}
    assert marks(site) == before
    assert site.training == 4
    assert len(login.kinds("submitted")) == count
    site.node_dies("n1")  # the next job is submitted under the mark, too
    login.drive(600.0)
    assert marks(site) == before
    assert site.twice() == []


def test_a_run_of_the_release_before_is_not_renamed_while_squeue_gives_no_answer(
    site: Site, login: Login
) -> None:
    login.settle()
    site.freeze(600.0, "down")
    with pytest.raises(SchedulerError, match="the queue cannot be read"):
        fix(login)
    assert read_identity(login.run) is None


def test_a_copy_of_a_run_is_another_run_and_a_moved_run_is_the_same(
    site: Site, login: Login, tmp_path: Path
) -> None:
    mark = fix(login)
    copied, moved = RunPaths(tmp_path / "copied"), RunPaths(tmp_path / "moved")
    shutil.copytree(login.run.root, copied.root)
    assert fix(login, copied) != mark
    assert run_id(login.config, copied) == fix(login, copied)
    shutil.move(login.run.root, moved.root)
    assert fix(login, moved) == mark


def test_a_damaged_identity_is_an_error_and_no_guess(login: Login) -> None:
    fix(login)
    login.run.identity.write_text("{")
    with pytest.raises(FileError, match="identity cannot be read"):
        run_id(login.config, login.run)
