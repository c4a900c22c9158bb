"""Registers the environment `PokemonRedEnv` with gymnasium.

Importing this module imports neither the environment nor the emulator; gymnasium imports them when
the first environment is made. gymnasium 0.29 calls `register` itself when it is imported, through
the entry point ``gymnasium.envs``. gymnasium 1 has no entry points: import this module, or use
``gymnasium.make("Daddy.pokemon.registration:Daddy/PokemonRed-v0")``.
"""

ENV_ID = "Daddy/PokemonRed-v0"


def register() -> None:
    """Register the environment as ENV_ID; a second call does nothing."""
    from gymnasium.envs import registration

    if ENV_ID not in registration.registry:
        registration.register(id=ENV_ID, entry_point="Daddy.pokemon.env:PokemonRedEnv")


register()
