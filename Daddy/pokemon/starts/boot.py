"""Where episodes begin: from power-on to the first moment a player can walk, or a named state.

Owns how a start comes about without a file or a look: title, speech and names are clicked through
as a bored child would. Promises a bound, and an error instead of an agent that spends its life on
the title screen. Names are `named`'s business, which is loaded where one is given.
"""

from __future__ import annotations

import os
from functools import lru_cache
from itertools import cycle
from pathlib import Path

from Daddy.core.errors import RomError
from Daddy.core.rom import Rom
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.progress import read_progress
from Daddy.pokemon.starts.route import BEGINNING

_CLOCK_RUNS = 0b1
_CLICK_LIMIT = 3_000
"""Clicks before giving up; the real game's introduction takes a few hundred."""
_PAUSE_FRAMES = 24
"""Frames without a key before each look, so that no key is down when the game begins."""


def start_state(
    rom: Rom,
    start: str | os.PathLike[str] | None = None,
    base: Path | None = None,
    states_dir: str | os.PathLike[str] = "",
    cache_dir: str | os.PathLike[str] = "",
) -> bytes:
    """The save state that episodes begin from.

    `start` is a name or a file as `starts.named` has them; empty is ``pokedex`` of the real game
    and the beginning of any other. RomError when there is none that can be used.
    """
    name = str(start or "") or default_start(rom)
    if name == BEGINNING:
        return beginning(rom)
    from Daddy.pokemon.starts.named import named_state

    return named_state(rom, name, base, states_dir, cache_dir)


def default_start(rom: Rom) -> str:
    """What an empty setting means: where the best peer starts, and the cartridge at its start."""
    return "pokedex" if rom.real else BEGINNING


def beginning(rom: Rom) -> bytes:
    """Save state of the first moment a player can walk; RomError when the game does not begin."""
    return _clicked_through(rom.data, rom.real)


@lru_cache(maxsize=4)
def _clicked_through(rom: bytes, real: bool) -> bytes:
    """Save state of the moment the player first can walk; computed once per process and game.

    `real`: Red or Blue, which hold map and place before the introduction ends; only their running
    clock tells.
    """
    emulator = Emulator(rom)
    try:
        click_through(emulator, real)
        return emulator.save_state()
    finally:
        emulator.close()


def click_through(emulator: Emulator, real: bool) -> None:
    """From power-on to the first moment a player can walk; RomError when the game does not begin"""
    for _, button in zip(range(_CLICK_LIMIT), cycle(("a", "start")), strict=False):
        emulator.wait(_PAUSE_FRAMES)
        if _begun(emulator, real):
            emulator.wait(_PAUSE_FRAMES)
            return
        emulator.press(button)
    raise RomError(
        f"the game did not begin after {_CLICK_LIMIT} clicks on its title screen",
        "give a save state of a begun game (setting training.start), or check the ROM",
    )


def _begun(emulator: Emulator, real: bool) -> bool:
    image = emulator.ram()
    progress = read_progress(image)
    clock_runs = bool(image[ram.STATUS_FLAGS_6 - ram.RAM_START] & _CLOCK_RUNS)
    ready = progress.placed and not progress.text_box and not progress.joypad_ignored
    return ready and (clock_runs or not real)
