"""Records a start state: a person plays the game in a window, and F5 saves its state.

Part of `play`. A state is saved only if it passes `playability_check`, so that an agent can train
from it.
"""

from contextlib import closing
from typing import Final

from Daddy.core.clock import Clock
from Daddy.core.errors import RomError
from Daddy.core.rom_identity import Rom
from Daddy.core.settings import Config
from Daddy.playback_setup import Pacer
from Daddy.pokemon.emulator import FRAMES_PER_SECOND, Emulator
from Daddy.pokemon.find_rom import load_configured_rom
from Daddy.pokemon.starts.find_start_state import BY_HAND, start_state
from Daddy.pokemon.starts.playability_check import check_playable
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
"""Keyboard key → Game Boy button."""
HELP: Final = "arrows walk, X or A is A, Z or S is B, Enter is START; F5 saves this state, Q quits"
_SAVE, _QUIT = "f5", frozenset({"q", "escape"})
_FRAMES = 2
"""Frames between two pictures, for thirty pictures a second."""


def record_start_state(name: str, config: Config, clock: Clock) -> int:
    """Show the game until the window is closed; return 0, or raise RomError if F5 saved nothing."""
    file_name, rom, saved = check_state_name(name), load_configured_rom(config.training), 0
    folder, pacer = open_state_folder(rom.sha1), Pacer(clock)
    title = f"{rom.name}: F5 saves this state as {name!r}"
    with closing(Emulator(rom.data)) as emulator, closing(GameWindow(title)) as window:
        if config.training.start:
            emulator.restore_state(start_state(rom, config.training.start))
        print(f"{rom.name}: {HELP}", flush=True)
        while not window.closed:
            pressed = window.show_picture(emulator.packed_screen())
            window.closed = window.closed or bool(_QUIT & set(pressed))
            emulator.hold({KEYS[key] for key in window.held if key in KEYS}, _FRAMES)
            if _SAVE in pressed:
                saved += keep_state(emulator, rom, folder, file_name)
            pacer.wait(_FRAMES / FRAMES_PER_SECOND)
    if not saved:
        raise RomError(f"no state was saved as {name!r}", "play again, and press F5 to save it")
    return 0


def keep_state(emulator: Emulator, rom: Rom, folder: StartStateFolder, name: str) -> bool:
    """Save the emulator's state and print its path; return False if `check_playable` fails."""
    emulator.hold((), 1)
    state = emulator.dump_state()
    try:
        with closing(Emulator(rom.data)) as judge:
            check_playable(judge, state, "this state")
    except RomError as error:
        print(f"the state was not saved: {error.message}", flush=True)
        return False
    path = folder.write_state(name, BY_HAND, state)
    print(f"saved {path}: begin with it by training.start {name}, or --start {name}", flush=True)
    return True
