"""Whether other people's tools take the environment as it is.

gymnasium's own checker, Stable-Baselines3's, and SB3's PPO for 20,000 steps on it: nothing wrapped,
nothing changed. What they warn about is listed.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from Daddy.pokemon.env import PokemonRedEnv
from scripts.benches._cartpole_peers import missing

STEPS, QUICK_STEPS = 20_000, 2_048
EPISODE_STEPS = 512


def run(quick: bool) -> dict[str, object]:
    """What each tool said, and SB3's speed and returns."""
    from gymnasium.utils.env_checker import check_env

    found: dict[str, object] = {"gymnasium_env_checker": _asked(check_env)}
    if missing():
        return {**found, "sb3": missing()}
    from stable_baselines3.common.env_checker import check_env as sb3_check_env

    found["sb3_check_env"] = _asked(sb3_check_env)
    return {**found, "sb3_ppo": _learn(QUICK_STEPS if quick else STEPS)}


def _asked(check: Callable[[Any], object]) -> dict[str, object]:
    """The checker's verdict on a fresh environment; an error is the bench's own."""
    env = PokemonRedEnv(render_mode="rgb_array")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        check(env)
    env.close()
    told = sorted({str(one.message).splitlines()[0] for one in said})
    return {"passes": True, "warnings": told}


def _learn(steps: int) -> dict[str, object]:
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback

    class Listener(BaseCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.returns: list[float] = []

        def _on_step(self) -> bool:
            ended = [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
            self.returns += [float(value) for value in ended]
            return True

    torch.set_num_threads(1)
    env, listener = PokemonRedEnv(episode_steps=EPISODE_STEPS), Listener()
    model = PPO("MultiInputPolicy", env, n_steps=512, batch_size=128, seed=1, device="cpu")
    began = time.perf_counter()
    model.learn(steps, callback=listener)
    wall_s = time.perf_counter() - began
    env.close()
    some = max(1, len(listener.returns) // 4)
    finite = all(bool(torch.isfinite(p).all()) for p in model.policy.parameters())
    return {
        "steps": model.num_timesteps,
        "steps_per_s": round(model.num_timesteps / wall_s),
        "episodes": len(listener.returns),
        "first_quarter_return": round(float(np.mean(listener.returns[:some])), 2),
        "last_quarter_return": round(float(np.mean(listener.returns[-some:])), 2),
        "weights_finite": finite,
    }
