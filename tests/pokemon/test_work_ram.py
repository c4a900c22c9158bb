"""Tests that the memory array and the slow interface of pyboy read the same bytes."""

from threading import Thread

import numpy as np

from Daddy.core.rom_identity import load_rom
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.emulator import BUTTONS, Emulator
from Daddy.pokemon.find_rom import cartridge_path
from Daddy.pokemon.game_progress import read_progress
from Daddy.pokemon.starts.find_start_state import beginning_state

ROM = load_rom(cartridge_path())


def started() -> Emulator:
    emulator = Emulator(ROM.data)
    emulator.restore_state(beginning_state(ROM))
    return emulator


def test_both_ways_read_the_same_bytes_also_after_a_state_was_loaded() -> None:
    emulator = started()
    state = emulator.dump_state()
    for key in np.random.default_rng(0).integers(len(BUTTONS), size=40).tolist():
        emulator.press(BUTTONS[key])
        here = bytes(emulator.ram())
        live, emulator._work_ram = emulator._work_ram, None
        assert live is not None, "pyboy's array was not found: every step is slower"
        assert bytes(emulator.ram(ram.WHOLE)) == here
        assert read_progress(emulator.ram()) == read_progress(here)
        emulator._work_ram = live
    before = bytes(emulator.ram())
    emulator.restore_state(state)
    assert bytes(emulator.ram()) != before
    assert started().ram() == emulator.ram()


def test_consoles_that_are_made_side_by_side_have_a_memory_each() -> None:
    made: list[Emulator] = []
    threads = [Thread(target=lambda: made.append(started())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for value, emulator in enumerate(made):
        emulator.write(ram.MAP_ID, value)
    assert [emulator.ram()[ram.MAP_ID - ram.RAM_START] for emulator in made] == [0, 1, 2, 3]
