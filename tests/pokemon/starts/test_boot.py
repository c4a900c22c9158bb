from __future__ import annotations

import pytest

from Daddy.core.errors import RomError
from Daddy.core.rom import Rom, load_rom
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.progress import read_progress
from Daddy.pokemon.rom import find_rom
from Daddy.pokemon.starts import start_state as starting

CARTRIDGE = load_rom(find_rom(None, environ={}))
EMPTY = bytes(0x100) + b"\x18\xfe" + bytes(0x4B) + b"\xe7" + bytes(32 * 1024 - 0x14E)
"""A game that jumps to itself for ever, with the right header checksum."""


def test_the_game_has_begun_and_waits_for_the_player() -> None:
    emulator = Emulator(CARTRIDGE.data)
    emulator.load_state(starting.beginning(CARTRIDGE))
    image = emulator.ram()
    progress = read_progress(image)
    assert progress.placed
    assert not progress.text_box
    assert not progress.joypad_ignored
    assert image[ram.STATUS_FLAGS_6 - ram.RAM_START] & 1
    emulator.close()


def test_the_start_state_is_the_same_every_time() -> None:
    first = starting.beginning(CARTRIDGE)
    starting._clicked_through.cache_clear()
    assert starting.beginning(CARTRIDGE) == first


def test_a_game_that_never_begins_is_an_error_and_no_endless_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(starting, "_CLICK_LIMIT", 5)
    with pytest.raises(RomError, match="did not begin after 5 clicks"):
        starting.beginning(Rom("empty", "", EMPTY, real=False))


def test_the_real_game_begins_when_its_clock_runs_and_not_when_it_has_a_place() -> None:
    """Red knows the player's room while the professor still speaks."""
    emulator = Emulator(CARTRIDGE.data)
    emulator.load_state(starting.beginning(CARTRIDGE))
    emulator.write(ram.STATUS_FLAGS_6, 0)
    assert not starting._begun(emulator, real=True)
    emulator.write(ram.STATUS_FLAGS_6, 1)
    assert starting._begun(emulator, real=True)
    emulator.close()


def test_a_file_that_no_game_boy_starts_is_an_error_of_ours() -> None:
    with pytest.raises(RomError, match="cannot start this game"):
        Emulator(bytes(32 * 1024))
