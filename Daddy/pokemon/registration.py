"""Registers our environment with gymnasium.

The import is light: the environment's module, and with it the emulator, is imported when the first
one is made. gymnasium 0.29 calls `register` by itself when it is imported (entry
point ``gymnasium.envs``, ``__root__``). gymnasium 1 has no such entry points any more: there one
writes ``gymnasium.make("Daddy.pokemon.registration:Daddy/PokemonRed-v0")``, or imports this module.
"""

from __future__ import annotations

ENV_ID = "Daddy/PokemonRed-v0"


def register() -> None:
    """Make ``gymnasium.make(ENV_ID)`` work; harmless when called again."""
    from gymnasium.envs import registration

    if ENV_ID not in registration.registry:
        registration.register(id=ENV_ID, entry_point="Daddy.pokemon.env:PokemonRedEnv")


register()
