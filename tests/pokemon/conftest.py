"""Gives every test of the game its own cache folder, and an emulator at the game's beginning."""

from collections.abc import Iterator

import pytest

from Daddy.core.rom_identity import load_rom
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.find_rom import find_rom
from Daddy.pokemon.starts.find_start_state import beginning_state


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    """Our own cartridge at the beginning of its game."""
    rom = load_rom(find_rom(None, environ={}))
    emulator = Emulator(rom.data)
    emulator.restore_state(beginning_state(rom))
    yield emulator
    emulator.close()
