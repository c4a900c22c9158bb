"""A start state made by hand: a person plays in a window, and F5 keeps the moment.

Stands below `play`. Promises that what is kept can be trained from: the same questions are asked as
before training, and a moment that fails them is not kept.
"""

from __future__ import annotations

from contextlib import closing
from typing import Final

from Daddy.core.clock import Clock
from Daddy.core.errors import RomError
from Daddy.core.rom_identity import Rom
from Daddy.core.settings import Config
from Daddy.playback_setup import Pacer
from Daddy.pokemon.emulator import FRAMES_PER_SECOND, Emulator
from Daddy.pokemon.find_rom import load_configured_rom
from Daddy.pokemon.starts.playability_check import check_playable
from Daddy.pokemon.starts.start_state import BY_HAND, start_state
from Daddy.pokemon.starts.start_state_folder import (
    StartStateFolder,
    check_state_name,
    open_state_folder,
)
from Daddy.streaming.viewer.pygame_window import GameWindow

KEYS: Final = {
    **{key: key for key in ("down", "left", "right", "up")},
    "x": "a",
    "a": "a",
    "z": "b",
    "s": "b",
    "return": "start",
}
"""The person's keys and the console's."""
HELP: Final = (
    "arrows walk, X or A is A, Z or S is B, Enter is START; F5 keeps this moment, Q leaves"
)
_KEEP, _LEAVE = "f5", frozenset({"q", "escape"})
_FRAMES = 2
"""Frames between two pictures: thirty a second."""


def record_start_state(name: str, config: Config, clock: Clock) -> int:
    """Play until the window is closed; code 0 if a moment was kept, 7 if none was."""
    shelf_name, rom, kept = check_state_name(name), load_configured_rom(config.training), 0
    shelf, pacer = open_state_folder(rom.sha1), Pacer(clock)
    title = f"{rom.name}: F5 keeps this moment as {name!r}"
    with closing(Emulator(rom.data)) as emulator, closing(GameWindow(title)) as window:
        if config.training.start:
            emulator.restore_state(start_state(rom, config.training.start))
        print(f"{rom.name}: {HELP}", flush=True)
        while not window.closed:
            struck = window.show_picture(emulator.packed_screen())
            window.closed = window.closed or bool(_LEAVE & set(struck))
            emulator.hold({KEYS[key] for key in window.held if key in KEYS}, _FRAMES)
            if _KEEP in struck:
                kept += keep_state(emulator, rom, shelf, shelf_name)
            pacer.wait(_FRAMES / FRAMES_PER_SECOND)
    if not kept:
        raise RomError(f"nothing was kept as {name!r}", "press F5 where training shall begin")
    return 0


def keep_state(emulator: Emulator, rom: Rom, shelf: StartStateFolder, name: str) -> bool:
    """Put this moment on the shelf, told aloud; False where nobody could train from it."""
    emulator.hold((), 1)
    state = emulator.dump_state()
    try:
        with closing(Emulator(rom.data)) as judge:
            check_playable(judge, state, "this moment")
    except RomError as error:
        print(f"not kept: {error.message}", flush=True)
        return False
    path = shelf.write_state(name, BY_HAND, state)
    print(f"kept {path}: begin there with training.start {name}, or --start {name}", flush=True)
    return True
