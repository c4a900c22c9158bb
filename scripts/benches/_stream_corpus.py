"""Records the corpus of the bench `stream`: a picture per step of a partly random game.

It is the same on every machine: scripted player, seeded random keys, no clock.
"""

import random
import time
from functools import partial
from statistics import median

import numpy as np
from numpy.typing import NDArray

from Daddy.core.rom_identity import load_rom
from Daddy.core.shared_types import SCREEN_HEIGHT, SCREEN_WIDTH
from Daddy.pokemon.emulator import BUTTONS, Emulator
from Daddy.pokemon.find_rom import find_rom
from Daddy.pokemon.ram_map import RAM_SIZE, RAM_START
from Daddy.pokemon.starts.find_start_state import beginning_state
from scripts.cartridge.player import Player, read_facts

RANDOM_SHARE = 0.3


def record(steps: int) -> tuple[list[bytes], float]:
    """Return the pictures of a game with 30 % random keys, and the seconds of an emulator step."""
    rom = load_rom(find_rom(None, environ={}))
    chance, player, emulator = random.Random(7), Player(rom.data), Emulator(rom.data)
    emulator.restore_state(beginning_state(rom))
    pictures, spent = [], []
    for _ in range(steps):
        image = emulator.ram(((RAM_START, RAM_START + RAM_SIZE),))
        button = player.next_button(read_facts(partial(_peek, image)))
        is_random = chance.random() < RANDOM_SHARE
        began = time.perf_counter()
        emulator.press(chance.choice(BUTTONS) if is_random else button)
        spent.append(time.perf_counter() - began)
        pictures.append(emulator.packed_screen())
    emulator.close()
    return pictures, median(spent)


def _peek(image: bytes | bytearray, address: int) -> int:
    return image[address - RAM_START]


def shades(picture: bytes) -> NDArray[np.uint8]:
    """Return the picture as (144, 160) uint8, 0 (lightest) to 3."""
    packed = np.frombuffer(picture, np.uint8)
    places = [packed >> shift & 3 for shift in (6, 4, 2, 0)]
    values: NDArray[np.uint8] = np.stack(places, axis=1)
    return values.reshape(SCREEN_HEIGHT, SCREEN_WIDTH)


def grey(picture: bytes) -> NDArray[np.uint8]:
    """Return the picture as (144, 160) uint8 of 255, 170, 85 and 0."""
    return (255 - 85 * shades(picture)).astype(np.uint8)


def rgb(picture: bytes) -> NDArray[np.uint8]:
    """Return the picture as (144, 160, 3) uint8, the seed code's format."""
    return np.repeat(grey(picture)[:, :, None], 3, axis=2)
