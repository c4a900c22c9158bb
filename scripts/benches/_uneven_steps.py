"""A scene of very uneven step lengths: the same game, some of whose steps last much longer."""

from __future__ import annotations

from typing import Any

import numpy as np

from Daddy.pokemon.env import PokemonRedEnv

UNITS = (1, 2, 4, 20)
SHARES = (0.85, 0.08, 0.05, 0.02)
"""How many times 24 frames a step lasts, and how often: a walk; a turn and a walk; a ledge or a
fade through a door; a battle's opening or a script that is waited for."""
MEAN = float(np.dot(UNITS, SHARES))
_SCRIPT_LENGTH = 4096


class UnevenEnv(PokemonRedEnv):
    """As `PokemonRedEnv`; a script says how long each step lasts, all of it real emulation."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._lengths: list[int] = []
        self._taken = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode; a seed also chooses the script."""
        if seed is not None or not self._lengths:
            dice = np.random.default_rng(seed)
            self._lengths = dice.choice(UNITS, size=_SCRIPT_LENGTH, p=SHARES).tolist()
        return super().reset(seed=seed, options=options)

    def start_step(self, action: Any) -> None:
        """Before a long step nothing is pressed for a while, each 24 frames of which draw one."""
        length = self._lengths[self._taken % _SCRIPT_LENGTH]
        self._taken += 1
        for _ in range(length - 1):
            self._emulator.idle()
        super().start_step(action)
