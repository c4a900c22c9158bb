"""Fixtures: a copied checkout with a small learner, and a person that runs commands in it."""

import hashlib
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

from Daddy.cluster.orchestrator.commands.status import StatusReader
from Daddy.cluster.orchestrator.control_files import read_intent
from Daddy.core.clock import SystemClock
from Daddy.core.event_log import read_events
from Daddy.core.lease import read_lease
from Daddy.core.load_config import load_config
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config
from Daddy.dashboard import EventSummary, add_events
from tests import patience

ROOT = Path(__file__).resolve().parents[2]
_OURS = ("SLURM_", "SBATCH_", "SQUEUE_", "DADDY_", "SMALL_LEARNER_")


def until(condition: Callable[[], object], timeout_s: float = 30.0) -> None:
    """Wait for a condition; fail the test after the timeout."""
    if not patience.until(condition, timeout_s, 0.1):
        pytest.fail(f"the condition did not hold within {timeout_s:g} s, nor long after")


@dataclass
class Person:
    """A user with a checkout and one run."""

    checkout: Path
    config: Path
    run: RunPaths
    env: dict[str, str]

    def run_controller(
        self, *argv: str, timeout_s: float = patience.PATIENCE_S
    ) -> subprocess.CompletedProcess[str]:
        """Run ``run_controller ARGV --config …``."""
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

    def status(self, *argv: str) -> dict[str, Any]:
        """Return ``status --json`` as a record."""
        return json.loads(self.run_controller("status", "--json", *argv).stdout)

    @property
    def status_in_process(self) -> dict[str, Any]:
        """The record that ``status --json`` prints, read in this process: for a test that waits."""
        config = load_config(None, {"run_dir": str(self.run.root)})  # the release's, once begun
        return next(StatusReader(config, self.run, SystemClock()).read_records())

    @property
    def training(self) -> int:
        intent = read_intent(self.run)
        local = intent is not None and intent.executor == "local"  # Slurm needs the person's PATH
        return sum(
            1
            for slot in (self.status_in_process if local else self.status())["slots"]
            if slot["training"]
        )

    @property
    def event_summary(self) -> EventSummary:
        """The summary of the run's events."""
        return add_events(read_events(self.run.events))

    @property
    def controller(self) -> int:
        """Pid of the controller that holds the run."""
        view = read_lease(self.run.controller_lease)
        assert view is not None
        return int(view.holder["pid"])

    def ledger(self, kind: str) -> list[dict[str, Any]]:
        """Return the ledger entries of one kind, none before the first pass."""
        lines = self.run.ledger.read_text().splitlines() if self.run.ledger.exists() else []
        return [entry for line in lines if (entry := json.loads(line))["kind"] == kind]


def show_as_red(person: Person, rom: bytes) -> Path:
    """Give the person a ROM whose hash their programs take for that of Pokémon Red."""
    path = person.config.with_name("PokemonRed.gb")
    path.write_bytes(rom)
    sha1 = hashlib.sha1(rom, usedforsecurity=False).hexdigest()
    change = f"rom_identity._KNOWN[{sha1!r}] = 'Pokémon Red'"
    imported = "from Daddy.core import rom_identity"
    person.config.with_name("sitecustomize.py").write_text(f"{imported}\n{change}\n")
    person.env["PYTHONPATH"] = f"{person.config.parent}:{person.env['PYTHONPATH']}"
    person.env["DADDY_ROM"] = str(path)
    return path


_NOT_RUN = ("codegen", "fanout", "grpo", "pokemon", "sandbox", "search", "terminal")
"""Parts of the package that no program of a small run imports; each start compiles all modules."""


def copied_checkout(folder: Path) -> Path:
    """Copy the package, with ``small_learner`` instead of the learner."""
    leave = shutil.ignore_patterns("__pycache__", *_NOT_RUN)
    shutil.copytree(ROOT / "Daddy", folder / "Daddy", ignore=leave)
    shutil.copy(ROOT / "tests" / "cluster" / "small_learner.py", folder / "Daddy/train_slim.py")
    return folder


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkout that every test may run and none may change."""
    return copied_checkout(tmp_path_factory.mktemp("checkout"))


def small_config(run_dir: Path, **changes: dict[str, object]) -> dict[str, Any]:
    """Return the settings of a run whose jobs end every few seconds."""
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
        "mirror": {"minutes": 0},
    }
    for section, values in changes.items():
        config[section] = {**config[section], **values}
    return config


def config_of(folder: Path, **sections: dict[str, object]) -> Config:
    """Return the configuration of a run in ``folder`` with these sections and defaults."""
    path = folder / "config.json"
    path.write_text(json.dumps({"run_dir": str(folder / "run"), **sections}))
    return load_config(path)


@pytest.fixture
def person(checkout: Path, tmp_path: Path) -> Iterator[Person]:
    """Yield a person with a run of two slots; end its processes afterwards."""
    config = tmp_path / "run.json"
    run = RunPaths(tmp_path / "runs" / "tiny")
    config.write_text(json.dumps(small_config(run.root)))
    env = {key: value for key, value in os.environ.items() if not key.startswith(_OURS)}
    home = tmp_path / "home"
    home.mkdir()
    env |= {"PYTHONPATH": str(checkout), "HOME": str(home)}
    person = Person(checkout, config, run, env)
    try:
        yield person
    finally:
        _end(person)


def _end(person: Person) -> None:
    if person.run.intent.exists():
        result = person.run_controller("stop", "--now")
        assert result.returncode == 0, result.stderr
