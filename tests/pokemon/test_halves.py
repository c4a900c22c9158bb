"""Tests that the two halves of a step equal one step, also interleaved with other environments."""

from collections.abc import Iterator

import numpy as np
import pytest

from Daddy.pokemon.emulator import BUTTONS
from Daddy.pokemon.env import PokemonRedEnv


@pytest.fixture
def envs() -> Iterator[list[PokemonRedEnv]]:
    made = [PokemonRedEnv(episode_steps=60) for _ in range(4)]
    yield made
    for env in made:
        env.close()


def test_halves_of_two_games_told_apart_are_each_games_own_steps(envs: list[PokemonRedEnv]) -> None:
    for number, env in enumerate(envs):
        env.reset(seed=number % 2)
    keys = np.random.default_rng(5).integers(len(BUTTONS), size=(80, 2)).tolist()
    for step in keys:
        expected = [env.step(key) for env, key in zip(envs[:2], step, strict=True)]
        for env, key in zip(envs[2:], step, strict=True):
            env.start_step(key)
        told = [env.finish_step() for env in envs[2:]]
        for mine, theirs in zip(told, expected, strict=True):
            assert mine[1:] == theirs[1:]
            assert all(np.array_equal(mine[0][name], theirs[0][name]) for name in theirs[0])
    assert [env.save_state() for env in envs[2:]] == [env.save_state() for env in envs[:2]]
