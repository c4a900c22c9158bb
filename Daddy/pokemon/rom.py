"""Where the game file lies: what is set, else the free cartridge."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from Daddy.core.rom import ENVIRONMENT_VARIABLE
from Daddy.pokemon.cartridge.build import cartridge_path

BEGINNING = "beginning"
"""The start state that every game has: the first moment a player can walk, clicked through to."""


def find_rom(
    setting: str | os.PathLike[str] | None,
    base: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Path:
    """Path of the game: the setting, else the variable DADDY_ROM, else the free cartridge.

    A relative path in the setting is relative to `base` (the config file's folder), one in the
    variable to the current folder.
    """
    variable = (os.environ if environ is None else environ).get(ENVIRONMENT_VARIABLE, "")
    if setting is not None and str(setting):
        return (base or Path.cwd()) / Path(setting).expanduser()
    return Path(variable).expanduser().resolve() if variable else cartridge_path()
