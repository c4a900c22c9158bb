"""Tests that wrappers and learners of other libraries play the game through ends of episodes."""

import re
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from Daddy.core.run_subprocess import run_command
from Daddy.pokemon.archive.archive_decisions import ArchiveRules
from tests.pokemon.archive.players import archived
from tests.pokemon.libraries import GYMNASIUMS, SB3, environ_with

ROOT = Path(__file__).parents[2]
RESERVED = {
    *("episode", "final_observation", "final_obs", "final_info"),  # gymnasium 0.29 and 1
    *("TimeLimit.truncated", "reset_mask", "seed", "options"),
    *("terminal_observation", "is_success", "reset_infos"),  # Stable-Baselines3
    *("episode_return", "episode_length", "score"),  # pufferlib
    *("r", "l", "t", "lives", "reward", "terminated", "elapsed_step", "env_id"),  # CleanRL, envpool
}
"""Keys of infos that wrappers and learners of other libraries write or read."""


def told(names: Sequence[str], *pins: str) -> dict[str, int]:
    """Run loops of `library_loops` with the pinned libraries; return the episodes of each."""
    argv = [sys.executable, "-m", "tests.pokemon.library_loops", *names]
    with TemporaryDirectory() as folder:  # Stable-Baselines3 leaves a folder for its log
        env = {**environ_with(*pins), "TMPDIR": folder}
        done = run_command(argv, 300, env=env, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return {
        name: int(count) for name, count in map(str.split, done.stdout.splitlines()[-len(names) :])
    }


@pytest.mark.parametrize("major", GYMNASIUMS)
def test_gymnasiums_wrappers_play_through_ends_of_episodes(major: str) -> None:
    episodes = {"checker": 1, "recorded": 3, "sync_vector": 4, "async_vector": 4, "cleanrl": 4}
    assert told([*episodes], GYMNASIUMS[major]) == episodes


@pytest.mark.parametrize("major", GYMNASIUMS)
def test_stable_baselines3_learns_with_and_without_its_monitor(major: str) -> None:
    assert told(["sb3"], GYMNASIUMS[major], SB3) == {"sb3": 4}


@pytest.mark.skipif(find_spec("pufferlib") is None, reason="wheels: Linux on x86-64 only")
def test_pufferlibs_statistics_are_those_of_the_episode() -> None:
    assert told(["pufferlib"], GYMNASIUMS["0.29"]) == {"pufferlib": 1}


def test_no_key_of_an_info_belongs_to_another_library(tmp_path: Path) -> None:
    env = archived(tmp_path, ArchiveRules(), episode_steps=200, assists=("flute",))
    keys = set(env.reset(seed=1)[1])
    for number in range(400):
        *_, won, late, info = env.step(number % 7)
        keys |= set(info)
        if won or late:
            env.reset()
    env.close()
    assert {"summary", "return_parts", "archive"} <= keys
    assert not keys & RESERVED
    assert not [key for key in keys if key.startswith("_")]


@pytest.mark.parametrize("major", GYMNASIUMS)
def test_the_guides_example_runs(major: str, tmp_path: Path) -> None:
    (example,) = re.findall(
        r"```python\n(import gymnasium\n.*?)```",
        (ROOT / "docs" / "guide.md").read_text("utf-8"),
        re.DOTALL,
    )
    assert len(example.strip().splitlines()) <= 12
    (tmp_path / "example.py").write_text(example, "utf-8")
    environ = environ_with(GYMNASIUMS[major])
    done = run_command([sys.executable, str(tmp_path / "example.py")], 120, env=environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("return ")
