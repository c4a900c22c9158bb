"""Tests that pufferlib's own vector plays the game, and that it is the same game."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from Daddy.pokemon.env import PokemonRedEnv

if not find_spec("pufferlib"):
    pytest.skip("the extra pufferlib is not installed", allow_module_level=True)
from pufferlib import vector

from Daddy.pokemon.puffer_env import PufferPokemonRed

OPTIONS = {"episode_steps": 15}
NUM_ENVS, STEPS = 4, 40
KEYS = np.random.default_rng(1).integers(7, size=(STEPS, NUM_ENVS), dtype=np.int32)


@contextmanager
def ended(processes: list[Any]) -> Iterator[None]:
    """Kill `processes` in the end: pufferlib's own end is a SIGTERM, which a fork may ignore."""
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def played(backend: Any, **how: int) -> tuple[list[list[Any]], list[Any], Any]:
    """Return the arrays of the reset and each step, all filled infos, and the types of a row."""
    made = vector.make(
        PufferPokemonRed, backend=backend, num_envs=NUM_ENVS, env_kwargs=OPTIONS, **how
    )
    with closing(made), ended(getattr(made, "processes", [])):
        arrays, infos = [[made.reset(seed=3)[0].copy()]], []
        for keys in KEYS:
            *results, told = made.step(keys)
            arrays.append([result.copy() for result in results])
            infos += [info for info in told if info]
        return arrays, infos, made.emulated["emulated_observation_dtype"]


def test_pufferlibs_processes_and_its_serial_backend_play_the_same_game() -> None:
    serial, infos, dtype = played(vector.Serial)
    processes, *others = played(vector.Multiprocessing, num_workers=2, overwork=True)
    assert [[array.tobytes() for array in step] for step in serial] == [
        [array.tobytes() for array in step] for step in processes
    ]
    assert others == [infos, dtype]


def test_pufferlib_sees_the_environments_observations_rewards_and_episodes() -> None:
    arrays, infos, dtype = played(vector.Serial)
    env = PokemonRedEnv(**OPTIONS)
    expected, paid = env.reset(seed=3)[0], 0.0
    for step, keys in enumerate(KEYS[:15]):
        row = arrays[step][0][0].view(dtype)[0]
        assert all(np.array_equal(row[name], value) for name, value in expected.items())
        expected, reward, _, truncated, info = env.step(int(keys[0]))
        assert arrays[step + 1][1][0] == np.float32(reward)
        paid += reward
    env.close()
    assert truncated
    assert len(infos) == 2 * NUM_ENVS
    assert infos[0]["episode_return"] == pytest.approx(paid)
    assert infos[0]["episode_length"] == 15
    assert {name.removeprefix("return/") for name in infos[0] if "/" in name} == set(
        info["return_parts"]
    )
    assert all(isinstance(value, int | float) for value in infos[0].values())
