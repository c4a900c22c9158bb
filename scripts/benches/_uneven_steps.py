"""An environment with very uneven step lengths: the same game, with some far longer steps."""

from typing import Any

import numpy as np

from Daddy.pokemon.env import PokemonRedEnv

UNITS = (1, 2, 4, 20)
SHARES = (0.85, 0.08, 0.05, 0.02)
"""Lengths of steps, in units of 24 frames, and their shares: a walk; a turn and a walk; a ledge or
a fade through a door; the start of a battle, or a script that the step waits for."""
MEAN = float(np.dot(UNITS, SHARES))
_LENGTHS = 4096


class UnevenEnv(PokemonRedEnv):
    """`PokemonRedEnv` whose steps have random lengths, all of them fully emulated."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._lengths: list[int] = []
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode; a seed also determines the lengths of its steps."""
        if seed is not None or not self._lengths:
            rng = np.random.default_rng(seed)
            self._lengths = rng.choice(UNITS, size=_LENGTHS, p=SHARES).tolist()
        return super().reset(seed=seed, options=options)

    def start_step(self, action: Any) -> None:
        """Begin a step; a long one first idles for its extra units, one drawn frame in each."""
        length = self._lengths[self._steps % _LENGTHS]
        self._steps += 1
        for _ in range(length - 1):
            self._emulator.idle()
        super().start_step(action)
