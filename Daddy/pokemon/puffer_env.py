"""Adapter for pufferlib: offers the game as an environment of pufferlib 2 and 3, for its users.

Needs the extra ``pufferlib``. `pufferlib.vector.make` runs `PufferPokemonRed` unmodified::

    vector = pufferlib.vector.make(PufferPokemonRed, backend=pufferlib.vector.Multiprocessing,
                                   num_envs=8, num_workers=2, env_kwargs={"episode_steps": 2048})
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pufferlib.emulation import GymnasiumPufferEnv

from Daddy.pokemon.env import PokemonRedEnv


class PufferPokemonRed(GymnasiumPufferEnv):  # type: ignore[misc]
    """Plays `PokemonRedEnv`, with its observation as one row of bytes and its keys as actions.

    `emulated` holds the types by which `pufferlib.pytorch.nativize_dtype` takes a row apart again.
    pufferlib's loggers average every number of an info, so the info is empty until the last step of
    an episode, and then flat: `episode_return`, `episode_length`, the ``summary``, and the return
    by part as ``return/NAME``.
    """

    def __init__(self, *, buf: Any = None, seed: Any = None, **options: Any) -> None:
        """Make the environment with the arguments of `PokemonRedEnv`.

        pufferlib 3 passes `buf`, its memory for the results, and `seed`, which `reset` gets too.
        """
        shared = {} if buf is None else {"buf": buf, "seed": seed}
        super().__init__(env_creator=PokemonRedEnv, env_kwargs=options, **shared)

    def reset(self, seed: int | None = None) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Begin an episode; None as `seed` keeps the generator."""
        return super().reset(seed)[0], {}

    def step(self, action: Any) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, float]]:
        """Press a key; see `PokemonRedEnv.step`."""
        observation, reward, terminated, truncated, info = super().step(action)
        summary = info.get("summary", {})
        told = {**summary, "episode_length": summary["step"]} if summary else {}
        told |= {f"return/{name}": part for name, part in info.get("return_parts", {}).items()}
        return observation, reward, terminated, truncated, told
