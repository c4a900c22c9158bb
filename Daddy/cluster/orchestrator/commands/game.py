"""What a run would play, in words, before anything is done."""

from __future__ import annotations

import warnings
from pathlib import Path

from Daddy.core.errors import RomError
from Daddy.core.rom import load_rom
from Daddy.core.settings import Config


def game_name(config: Config, executor: str) -> str:
    """What is played and with which assists; RomError where it cannot be or is not meant."""
    helps = ", ".join(config.training.assists)
    return _game(config, executor) + (f", with the assists {helps}" if helps else "")


def _game(config: Config, executor: str) -> str:
    training = config.training
    if training.workload != "pokemon_red":
        return training.workload
    if training.rom is not None:
        path = Path(training.rom)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the name says that it is unknown
            return f"{load_rom(path, training.allow_unknown_rom).name} ({path.name})"
    if executor == "slurm" and not training.cartridge:
        raise RomError(
            "no ROM is configured, and GPU jobs would play the free test cartridge",
            "set training.rom or DADDY_ROM to your own PokemonRed.gb, or say --cartridge",
        )
    return "the free cartridge (no ROM is configured)"
