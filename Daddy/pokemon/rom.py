"""Adapter for the game file: find it, and check that a job can play from its start state."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from Daddy.core.rom import ENVIRONMENT_VARIABLE


def cartridge_path() -> Path:
    """Path of the free cartridge, a 32 KiB ROM image inside the package."""
    return Path(__file__).resolve().parent / "cartridge" / "daddy.gb"


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


def check_start(rom_path: str | None, allow_unknown: bool, start: str) -> None:
    """Raise RomError (exit code 7) unless a player can play on from the start state.

    Costs nothing for the cartridge's own beginning. Another state is made here at the latest, and
    kept for the environments to come.
    """
    if not start and rom_path in (None, str(cartridge_path())):
        return
    from Daddy.core.rom import load_rom
    from Daddy.pokemon.emulator import Emulator
    from Daddy.pokemon.starts.preflight import preflight
    from Daddy.pokemon.starts.start_state import default_start, start_state

    rom = load_rom(find_rom(rom_path or cartridge_path()), allow_unknown)
    state = start_state(rom, start)
    emulator = Emulator(rom.data)
    try:
        preflight(emulator, state, f"the start state {start or default_start(rom)!r} of {rom.name}")
    finally:
        emulator.close()
