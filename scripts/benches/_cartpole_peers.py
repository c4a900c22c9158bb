"""Door to Stable-Baselines3 and sb3-contrib: their PPO on the same CartPole, as their zoo tunes it.

Only here, only when asked for: they are an extra (``bench``), no dependency.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np

from scripts.benches._cartpole_ours import WINDOW, Ear
from scripts.benches._curves import Curve

ENVS = 8
ZOO: dict[str, Any] = {
    "n_steps": 32,
    "batch_size": 256,
    "gae_lambda": 0.8,
    "gamma": 0.98,
    "n_epochs": 20,
    "ent_coef": 0.0,
}
"""RL Baselines3 Zoo's numbers for CartPole-v1, with and without velocities."""
RATE, CLIP = 1e-3, 0.2
HOW_TO = "not installed: .venv/bin/pip install -c constraints.txt -e '.[bench]'"


def missing() -> str:
    """What to say where they are not installed; empty where they are."""
    both = find_spec("stable_baselines3") and find_spec("sb3_contrib")
    return "" if both else HOW_TO


class PositionsOnly(gymnasium.ObservationWrapper[Any, Any, Any]):
    """CartPole without its velocities."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        whole: Any = env.observation_space
        self.observation_space = gymnasium.spaces.Box(whole.low[::2], whole.high[::2])

    def observation(self, observation: Any) -> Any:
        return observation[::2]


def _make(*, velocities: bool) -> gymnasium.Env[Any, Any]:
    env = gymnasium.make("CartPole-v1")
    return env if velocities else PositionsOnly(env)


def _falling(begin: float) -> Callable[[float], float]:
    return lambda left: left * begin


def learn(seed: int, goal: float, limit: int, *, memory: bool, velocities: bool) -> Curve:
    """One run of at most `limit` steps, and a hundred fresh episodes of what it learnt."""
    import torch
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecNormalize

    torch.set_num_threads(1)
    venv: Any = make_vec_env(lambda: _make(velocities=velocities), n_envs=ENVS, seed=seed)
    if memory:
        venv = VecNormalize(venv, gamma=ZOO["gamma"])
    model = _model(venv, seed, memory=memory)
    ear = Ear(goal)
    model.learn(limit, callback=_listener(ear))
    wall_s = ear.wall_s or time.perf_counter() - ear.began
    if memory:
        venv.training = venv.norm_reward = False
    judged, _ = evaluate_policy(model, venv, n_eval_episodes=WINDOW, warn=False)
    return Curve(
        *(seed, ear.steps, ear.returns, ear.solved_at, model.num_timesteps),
        *(round(wall_s, 1), round(float(np.mean(judged)), 1)),
    )


def _model(venv: Any, seed: int, *, memory: bool) -> Any:
    falling = {"learning_rate": _falling(RATE), "clip_range": _falling(CLIP)}
    if not memory:
        from stable_baselines3 import PPO

        return PPO("MlpPolicy", venv, seed=seed, device="cpu", **ZOO, **falling)
    import torch
    from sb3_contrib import RecurrentPPO

    shape: dict[str, Any] = {
        "ortho_init": False,
        "activation_fn": torch.nn.ReLU,
        "lstm_hidden_size": 64,
        "enable_critic_lstm": True,
        "net_arch": {"pi": [64], "vf": [64]},
    }
    return RecurrentPPO(
        "MlpLstmPolicy", venv, seed=seed, device="cpu", policy_kwargs=shape, **ZOO, **falling
    )


def _listener(ear: Ear) -> Any:
    """Hears the monitor's true returns after every step; ends the run when they are good."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Listener(BaseCallback):  # type: ignore[misc]
        def _on_step(self) -> bool:
            ended = [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
            ear.hear(self.num_timesteps, [float(value) for value in ended])
            return ear.stop_reason() is None

    return Listener()
