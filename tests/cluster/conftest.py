"""A copied checkout whose learner is small, and a person who types commands in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from Daddy.core.event_log import read_events
from Daddy.core.lease import read_lease
from Daddy.core.load_config import load_config
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config
from Daddy.dashboard import EventSummary, add_events
from tests import patience

ROOT = Path(__file__).resolve().parents[2]
_OURS = ("SLURM_", "SBATCH_", "SQUEUE_", "DADDY_", "SMALL_LEARNER_")


def until(true: Callable[[], object], timeout_s: float = 30.0) -> None:
    """Wait for something to become true; the test fails when it does not."""
    if not patience.until(true, timeout_s):
        pytest.fail(f"it did not come true within {timeout_s:g} s, nor long after")


@dataclass
class Person:
    """Somebody at a shell in a checkout, with one run."""

    checkout: Path
    config: Path
    run: RunPaths
    env: dict[str, str]

    def says(self, *argv: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        """``run_controller ARGV --config …``."""
        module = "Daddy.cluster.orchestrator.run_controller"
        return subprocess.run(
            [sys.executable, "-m", module, *argv, "--config", str(self.config)],
            cwd=self.checkout,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def sees(self, *argv: str) -> dict[str, Any]:
        """``status --json`` as a record."""
        return json.loads(self.says("status", "--json", *argv).stdout)

    @property
    def training(self) -> int:
        return sum(1 for slot in self.sees()["slots"] if slot["training"])

    @property
    def fleet(self) -> EventSummary:
        """What the run's events tell."""
        return add_events(read_events(self.run.events))

    @property
    def controller(self) -> int:
        """Pid of the controller that holds the run."""
        view = read_lease(self.run.controller_lease)
        assert view is not None
        return int(view.holder["pid"])

    def ledger(self, kind: str) -> list[dict[str, Any]]:
        """Ledger lines of one kind."""
        lines = self.run.ledger.read_text().splitlines()
        return [one for line in lines if (one := json.loads(line))["kind"] == kind]


def copied_checkout(folder: Path) -> Path:
    """The package as it is, with ``small_learner`` in the place of the learner."""
    leave = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "Daddy", folder / "Daddy", ignore=leave)
    shutil.copy(ROOT / "tests" / "cluster" / "small_learner.py", folder / "Daddy/train_slim.py")
    return folder


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout that every test may run and none may change."""
    return copied_checkout(tmp_path_factory.mktemp("checkout"))


def small_config(run_dir: Path, **changes: dict[str, object]) -> dict[str, Any]:
    """Settings of a run that hands over every few seconds."""
    config: dict[str, Any] = {
        "run_name": "tiny",
        "run_dir": str(run_dir),
        "training": {
            "workload": "cartpole",
            "device": "cpu",
            "stream": False,
            "max_runtime_seconds": 4,
        },
        "slurm": {"time_limit": "0:02:00", "max_running": 2},
        "controller": {"executor": "local", "poll_seconds": 1},
    }
    for section, values in changes.items():
        config[section] = {**config[section], **values}
    return config


def config_of(folder: Path, **sections: dict[str, object]) -> Config:
    """The effective configuration of a run in ``folder`` that sets only what is given."""
    path = folder / "config.json"
    path.write_text(json.dumps({"run_dir": str(folder / "run"), **sections}))
    return load_config(path)


@pytest.fixture
def person(checkout: Path, tmp_path: Path) -> Iterator[Person]:
    """A person with a run of two slots; whatever they started is gone afterwards."""
    config = tmp_path / "run.json"
    run = RunPaths(tmp_path / "runs" / "tiny")
    config.write_text(json.dumps(small_config(run.root)))
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_OURS)}
    someone = Person(checkout, config, run, {**kept, "PYTHONPATH": str(checkout)})
    try:
        yield someone
    finally:
        _end(someone)


def _end(person: Person) -> None:
    if person.run.intent.exists():
        with_luck = person.says("stop", "--now", timeout_s=90)
        assert with_luck.returncode == 0, with_luck.stderr
