"""What comes of operations, for tests."""

from Daddy.core.rom import Rom
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.inputs import operations, tape
from Daddy.pokemon.ram_map import WHOLE
from Daddy.pokemon.recordings.hand import do
from Daddy.pokemon.starts.boot import start_state


def digest_after(rom: Rom, done: bytes) -> bytes:
    """The digest of the memory after these operations, from the game's beginning."""
    emulator = Emulator(rom.data)
    try:
        emulator.load_state(start_state(rom))
        for one in operations.each(done):
            do(emulator, one)
        return tape.digest(emulator.ram(WHOLE))
    finally:
        emulator.close()
