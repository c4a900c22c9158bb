"""The pre-flight of a job: its game, its start state, and whether one can play on from there.

Costs nothing for the cartridge's own beginning, which tests vouch for, and a fraction of a second
else; what had to be made or adopted then lies on the shelf for the environments to come.
"""

from __future__ import annotations

from Daddy.pokemon.cartridge.build import cartridge_path


def check_start(
    rom_path: str | None, allow_unknown: bool, start: str, states_dir: str, cache_dir: str
) -> None:
    """RomError (exit code 7) that says what is wrong with the game or with where it begins."""
    if not start and rom_path in (None, str(cartridge_path())):
        return
    from Daddy.core.rom import load_rom
    from Daddy.pokemon.emulator import Emulator
    from Daddy.pokemon.rom import find_rom
    from Daddy.pokemon.starts.boot import default_start, start_state
    from Daddy.pokemon.starts.preflight import preflight

    rom = load_rom(find_rom(rom_path or cartridge_path()), allow_unknown)
    state = start_state(rom, start, None, states_dir, cache_dir)
    emulator = Emulator(rom.data)
    try:
        preflight(emulator, state, f"the start state {start or default_start(rom)!r} of {rom.name}")
    finally:
        emulator.close()
