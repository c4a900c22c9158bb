"""Loops in which other libraries play the game through ends of episodes.

They run in a process of their own (`python -m tests.pokemon.library_loops NAME...`), with the
version of gymnasium that PYTHONPATH names; each prints its name and the episodes that the library
told of.
"""

import sys
import warnings
from functools import partial
from typing import Any

import gymnasium
import numpy as np

STEPS = 30
NAME = "Daddy.pokemon.registration:Daddy/PokemonRed-v0"
MAKE = partial(gymnasium.make, NAME, episode_steps=STEPS)
MAJOR = int(gymnasium.__version__.split(".")[0])


def recorded_env() -> Any:
    return gymnasium.wrappers.RecordEpisodeStatistics(MAKE())


def checker() -> int:
    """Run gymnasium's checker, whose warnings are errors."""
    from gymnasium.utils.env_checker import check_env

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = MAKE()
        check_env(env.unwrapped)
        env.close()
    return 1


def recorded() -> int:
    """Play three episodes in gymnasium's RecordEpisodeStatistics."""
    env, told = recorded_env(), 0
    for _ in range(3):
        env.reset(seed=1)
        ended, paid = False, 0.0
        while not ended:
            _, reward, won, late, info = env.step(env.action_space.sample())
            ended, paid = won or late, paid + float(reward)
        statistics = info["episode"]
        assert int(np.sum(statistics["l"])) == STEPS == info["summary"]["step"]
        assert np.isclose(np.sum(statistics["r"]), paid, atol=1e-3)
        assert np.isclose(info["summary"]["episode_return"], paid)
        told += 1
    return told


def _vector(kind: Any) -> int:
    """Play two episodes of two environments in the wrapper for vectors."""
    wrappers = gymnasium.wrappers if MAJOR == 0 else gymnasium.wrappers.vector
    vector = wrappers.RecordEpisodeStatistics(kind([MAKE, MAKE]))
    vector.reset(seed=1)
    told = 0
    for _ in range(2 * STEPS + 5):
        *_, infos = vector.step(vector.action_space.sample())
        told += int(np.sum(infos.get("_episode", 0)))
        if "episode" in infos:
            assert infos["episode"]["l"].tolist() == [STEPS] * 2
    vector.close()
    return told


def sync_vector() -> int:
    return _vector(gymnasium.vector.SyncVectorEnv)


def async_vector() -> int:
    return _vector(gymnasium.vector.AsyncVectorEnv)


def cleanrl() -> int:
    """Collect a rollout as single-file learners do, and read returns from the infos."""
    envs = gymnasium.vector.SyncVectorEnv([recorded_env] * 2)
    observations, _ = envs.reset(seed=1)
    rewards, told = np.zeros((64, 2)), 0
    for step in range(64):
        observations, rewards[step], won, late, infos = envs.step(envs.action_space.sample())
        ends = [end for end in infos.get("final_info", ()) if end] if MAJOR == 0 else []
        returns = [float(np.sum(end["episode"]["r"])) for end in ends]
        if "episode" in infos:  # gymnasium 1
            returns = infos["episode"]["r"][infos["_episode"]].tolist()
        assert len(returns) == (won | late).sum()
        told += len(returns)
    assert all(len(column) == 2 for column in observations.values())
    envs.close()
    return told


def sb3() -> int:
    """Train Stable-Baselines3's PPO without a Monitor, then with one for the vector."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

    options: dict[str, Any] = {"n_steps": 64, "batch_size": 64, "n_epochs": 1, "device": "cpu"}
    plain = PPO("MultiInputPolicy", DummyVecEnv([MAKE, MAKE]), **options).learn(128)
    assert not plain.ep_info_buffer, "no Monitor: Stable-Baselines3 knows of no episodes"
    model = PPO("MultiInputPolicy", VecMonitor(DummyVecEnv([MAKE, MAKE])), **options).learn(128)
    assert {episode["l"] for episode in model.ep_info_buffer or ()} == {STEPS}
    action, _ = model.predict(MAKE().reset()[0])
    MAKE().unwrapped.step(action)
    return len(model.ep_info_buffer or ())


def pufferlib() -> int:
    """Play an episode in pufferlib's EpisodeStats, which sums the values of equal keys."""
    from pufferlib.postprocess import EpisodeStats

    env = EpisodeStats(MAKE())
    env.reset(seed=1)
    steps = [env.step(env.action_space.sample()) for _ in range(STEPS)]
    info = steps[-1][4]
    assert info["episode_length"] == STEPS
    assert np.isclose(info["episode_return"], sum(step[1] for step in steps))
    return 1


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, globals()[name](), flush=True)
