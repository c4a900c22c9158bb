"""Tests that environments of two processes exchange states through the run directory."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from Daddy.core.job_environment import SLOT
from Daddy.core.load_config import load_config
from Daddy.core.run_paths import RunPaths
from Daddy.learning.make_vector import make_vector
from Daddy.learning.vector_rows import VectorEnv
from Daddy.pokemon.archive.file_names import make_catalogue
from Daddy.workloads import WORKLOADS
from tests.patience import PATIENCE_S

SCRIPTED = """
import sys
from Daddy.core.load_config import load_config
from Daddy.workloads import WORKLOADS
from tests.pokemon.archive.players import advance
config = load_config(overrides={"run_dir": sys.argv[1], "archive.mode": "swarm"})
env = WORKLOADS["pokemon_red"].make_env(config)()
env.reset(seed=1)
advance(env, 4)
"""


@pytest.fixture(autouse=True)
def _own_game(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DADDY_ROM", raising=False)


def environments(folder: Path, slot: int, monkeypatch: pytest.MonkeyPatch) -> VectorEnv:
    """Make two environments of a learner from its configuration."""
    monkeypatch.setenv(SLOT, str(slot))
    config = load_config(overrides={"run_dir": str(folder), "archive.mode": "swarm"})
    vector = make_vector(WORKLOADS["pokemon_red"].make_env(config), 2)
    vector.reset([5, 6])
    return vector


def milestones(vector: VectorEnv) -> list[int]:
    column = vector.telemetry_names.index("milestones")
    return vector.telemetry()[:, column].astype(int).tolist()


def stay(vector: VectorEnv, steps: int) -> tuple[float, bool]:
    """Press up; return all rewards, and True if an episode ended."""
    paid, ended = 0.0, False
    for _ in range(steps):
        transition = vector.step(np.full(2, 3))
        paid += float(transition.rewards.sum())
        ended |= bool(transition.episodes)
    return paid, ended


def test_what_one_process_reaches_the_others_go_on_from_also_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vector = environments(tmp_path, 1, monkeypatch)
    try:
        stay(vector, 2)
        assert milestones(vector) == [0, 0]
        argv = [sys.executable, "-c", SCRIPTED, str(tmp_path)]
        subprocess.run(argv, env={**os.environ, SLOT: "0"}, check=True, timeout=PATIENCE_S)
        paid, ended = stay(vector, 256)
        assert milestones(vector) == [4, 4]
        assert (ended, paid) == (False, pytest.approx(0.0, abs=0.5))
        states = vector.save_states()
    finally:
        vector.close()
    (folder,) = RunPaths(tmp_path).archive.iterdir()
    before = make_catalogue(path.name for path in folder.iterdir()).entries
    assert max(entry.rank for entry in before) == 4
    again = environments(tmp_path, 1, monkeypatch)
    try:
        stay(again, 1)
        assert milestones(again) == [4, 4]
        again.load_states(states)
        assert milestones(again) == [4, 4]
    finally:
        again.close()
    assert make_catalogue(path.name for path in folder.iterdir()).entries == before
