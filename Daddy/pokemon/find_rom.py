"""Adapter for the game file: finds the ROM, and checks that an agent can play its start state."""

import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from Daddy.core.rom_identity import ENVIRONMENT_VARIABLE, Rom, load_rom
from Daddy.core.settings import TrainingSettings


def cartridge_path() -> Path:
    """Return the path of the free cartridge, a 32 KiB ROM image inside the package."""
    return Path(__file__).resolve().parent / "cartridge" / "daddy.gb"


def find_rom(
    setting: str | os.PathLike[str] | None, environ: Mapping[str, str] | None = None
) -> Path:
    """Return the game's path: `setting`, or if empty DADDY_ROM, or if empty the cartridge."""
    variable = (os.environ if environ is None else environ).get(ENVIRONMENT_VARIABLE, "")
    path = str(setting or "") or variable
    return Path(path).expanduser().absolute() if path else cartridge_path()


def load_configured_rom(training: TrainingSettings) -> Rom:
    """Load the configured ROM, or the cartridge if none is named; RomError if it is unusable."""
    return load_rom(Path(training.rom or cartridge_path()), training.allow_unknown_rom)


def check_start_state(training: TrainingSettings) -> None:
    """Raise RomError (exit code 7) unless an agent can play on from the start state.

    The cartridge's own beginning is not checked. Any other state is made if it does not exist.
    """
    start = training.start
    if not start and training.rom in (None, str(cartridge_path())):
        return
    from Daddy.pokemon.emulator import Emulator
    from Daddy.pokemon.starts.find_start_state import default_start_name, start_state
    from Daddy.pokemon.starts.playability_check import check_playable

    rom = load_configured_rom(training)
    state = start_state(rom, start)
    with closing(Emulator(rom.data)) as emulator:
        name = start or default_start_name(rom)
        check_playable(emulator, state, f"the start state {name!r} of {rom.name}")
