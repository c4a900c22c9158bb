"""Tells gymnasium our environment's name; gymnasium calls it when it is imported itself.

Owns the id. Promises to be light: the environment's module, and with it the emulator, is imported
when the first one is made. The plugin entry point in pyproject.toml (group ``gymnasium.envs``,
name ``__root__``) points at `register`.
"""

from __future__ import annotations

ENV_ID = "Daddy/PokemonRed-v0"


def register() -> None:
    """Make ``gymnasium.make("Daddy/PokemonRed-v0")`` work; harmless when called again."""
    from gymnasium.envs import registration

    if ENV_ID not in registration.registry:
        registration.register(id=ENV_ID, entry_point="Daddy.pokemon.env:PokemonRedEnv")
