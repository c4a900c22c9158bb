"""Makes a recorder that holds the way from power-on to a start state as a recording's beginning.

Where no way is known (a file, a moment kept by hand) the recording begins at the state itself: then
it can be played only with that state.
"""

from __future__ import annotations

from contextlib import closing, suppress

from Daddy.core.rom_identity import Rom
from Daddy.pokemon.emulator import PYBOY_VERSION, Emulator
from Daddy.pokemon.inputs.input_recorder import Recorder
from Daddy.pokemon.starts.route_player import StuckError
from Daddy.pokemon.starts.start_state import default_start, start_state, ways_to


def recorder_of(rom: Rom) -> Recorder:
    """A recorder for an emulator at power-on."""
    return Recorder(rom.sha1, rom.name, PYBOY_VERSION)


def recorder_at(rom: Rom, start: str = "") -> Recorder:
    """A recorder for an emulator that is about to load the start state; RomError.

    It has the very bytes of the state as a kept moment.
    """
    state = start_state(rom, start)
    for way in ways_to(rom, start or default_start(rom)):
        recorder = recorder_of(rom)
        with closing(Emulator(rom.data, recorder)) as emulator, suppress(StuckError):
            way(emulator)
            if emulator.save_state() == state:
                return recorder
    recorder = recorder_of(rom)
    recorder.loads(state, bytes)
    return recorder
