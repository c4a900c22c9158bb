"""Runs a cartridge in the real emulator for tests, from any cell of any map."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.find_rom import cartridge_path
from scripts.cartridge.build import build
from scripts.cartridge.game_state import Facts, read_facts
from scripts.cartridge.player import Player
from scripts.cartridge.symbols import SEED_ADDRESS

ROM = cartridge_path().read_bytes()
BOOT_STEPS = 12
ALL_RAM = ((0xC000, 0xE000),)


@lru_cache(maxsize=32)
def starting_at(number: int, y: int, x: int) -> bytes:
    """Build the cartridge so that a new game begins at (y, x) of a map."""
    return build({"START_MAP": number, "START_Y": y, "START_X": x})[0]


class Game:
    """A running cartridge, past its title."""

    def __init__(self, rom: bytes = ROM, seed: int | None = None) -> None:
        self.emulator = Emulator(rom)
        for _ in range(BOOT_STEPS):
            self.emulator.wait(24)
        if seed is not None:
            self.emulator.write(SEED_ADDRESS, seed)

    def press(self, *buttons: str) -> Game:
        for button in buttons:
            self.emulator.press(button)
        return self

    def byte(self, address: int) -> int:
        return self.emulator.ram(((address, address + 1),))[address - 0xC000]

    def memory(self) -> bytes:
        return bytes(self.emulator.ram(ALL_RAM))

    def facts(self) -> Facts:
        image = self.emulator.ram(ALL_RAM)
        return read_facts(lambda address: image[address - 0xC000])

    @property
    def place(self) -> tuple[int, int, int]:
        return tuple(self.facts().place)

    @property
    def clock(self) -> int:
        hours, _, minutes, seconds, frames = (self.byte(0xDA41 + at) for at in range(5))
        return ((hours * 60 + minutes) * 60 + seconds) * 60 + frames

    def picture(self) -> NDArray[np.uint8]:
        return self.emulator.full_screen()

    def play(self, player: Player, steps: int, until: str | None = None) -> int:
        """Let the player play until the property `until` is true, at most `steps`; count them."""
        for step in range(steps):
            facts = self.facts()
            if facts.finished or (until and getattr(self, until)):
                return step
            self.press(player.next_button(facts))
        return steps

    @property
    def has_creature(self) -> bool:
        return self.byte(0xD163) > 0

    @property
    def is_fighting(self) -> bool:
        return self.byte(0xD057) in (1, 2)

    @property
    def badges(self) -> int:
        return self.byte(0xD356)

    def close(self) -> None:
        self.emulator.close()
