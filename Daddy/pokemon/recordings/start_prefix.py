"""Makes a recorder whose recording begins with the inputs from power-on to a start state.

If these inputs are unknown (the state is a file, or was recorded by hand) the recording begins at
the state, and can be played with that state only.
"""

from __future__ import annotations

from contextlib import closing, suppress

from Daddy.core.rom_identity import Rom
from Daddy.pokemon.emulator import PYBOY_VERSION, Emulator
from Daddy.pokemon.inputs.input_recorder import InputRecorder
from Daddy.pokemon.starts.find_start_state import attempts_to_reach, default_start_name, start_state
from Daddy.pokemon.starts.route_player import StuckError


def recorder_at_power_on(rom: Rom) -> InputRecorder:
    """Make a recorder for an emulator at power-on."""
    return InputRecorder(rom.sha1, rom.name, PYBOY_VERSION)


def recorder_at_start(rom: Rom, start: str = "") -> InputRecorder:
    """Return a recorder with the inputs from power-on to the start state, if known. RomError."""
    state = start_state(rom, start)
    for play in attempts_to_reach(rom, start or default_start_name(rom)):
        recorder = recorder_at_power_on(rom)
        with closing(Emulator(rom.data, recorder)) as emulator, suppress(StuckError):
            play(emulator)
            if emulator.dump_state() == state:
                return recorder
    recorder = recorder_at_power_on(rom)
    recorder.record_load(state, bytes)
    return recorder
