"""Folders that jobs need are there and can be written, or it is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.commands.folders import make_run_folders, make_shared_folder
from Daddy.core.config import run_paths
from Daddy.core.errors import FileError
from tests.cluster.conftest import config_of


def test_folders_that_jobs_need_exist_before_any_is_submitted(tmp_path: Path) -> None:
    settings = config_of(tmp_path)
    run = run_paths(settings)
    make_run_folders(run)
    assert run.logs.is_dir()
    assert list(run.controller.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be written"):
        make_run_folders(run_paths(settings.model_copy(update={"run_dir": str(tmp_path / "file")})))


def test_each_folder_is_tried_and_not_only_made(tmp_path: Path) -> None:
    settings = config_of(tmp_path)
    run = run_paths(settings)
    run.logs.parent.mkdir(parents=True)
    run.logs.symlink_to("/dev/fd")  # a folder where nobody, not even root, makes a file
    with pytest.raises(FileError, match=f"{run.root} cannot be written"):
        make_run_folders(run)


def test_a_shared_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    make_shared_folder(tmp_path / "weights" / "ours")
    assert list((tmp_path / "weights" / "ours").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=f"shared_dir {tmp_path}/file cannot be written"):
        make_shared_folder(tmp_path / "file")
