"""That two machines' emulators play a game alike: 2,000 steps from power-on, and what came of it.

Owns the buttons: they never change, or no machine agrees with another any more.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from Daddy.core.rom import Rom
from Daddy.pokemon.emulator import BUTTONS, Emulator
from Daddy.pokemon.inputs import tape
from Daddy.pokemon.ram_map import WHOLE

STEPS: Final = 2_000
_FACTOR, _MORE, _RANGE = 1_103_515_245, 12_345, 1 << 31


@lru_cache(maxsize=4)
def proof(rom: Rom, steps: int = STEPS) -> str:
    """The digest of the game's memory after it, 16 hexadecimal digits. Takes seconds. RomError.

    Who plays fewer `steps` (tests) agrees only with who does the same.
    """
    emulator, dice = Emulator(rom.data), 1
    try:
        for _ in range(steps):
            dice = (dice * _FACTOR + _MORE) % _RANGE
            emulator.press(BUTTONS[(dice >> 16) % len(BUTTONS)])
        return tape.digest(emulator.ram(WHOLE)).hex()
    finally:
        emulator.close()
