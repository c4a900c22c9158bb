"""The configuration that commands hand to jobs."""

from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.commands.run_selection import resolve_paths
from tests.cluster.conftest import config_of


def test_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_paths = config_of(tmp_path, collaboration={"shared_dir": "weights"})
    open_paths = open_paths.model_copy(update={"run_dir": "runs/x"})
    fixed = resolve_paths(open_paths, "slurm")
    assert fixed.run_dir == str(tmp_path / "runs" / "x")
    assert fixed.collaboration.shared_dir == str(tmp_path / "weights")
    assert fixed.controller.executor == "slurm"
