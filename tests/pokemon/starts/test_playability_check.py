"""Tests that a state is refused with the reason for which nobody can play on from it."""

import pytest

from Daddy.core.errors import RomError
from Daddy.core.rom_identity import load_rom
from Daddy.core.settings import TrainingSettings
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.find_rom import check_start_state, find_rom
from Daddy.pokemon.starts.find_start_state import beginning_state
from Daddy.pokemon.starts.playability_check import check_playable

ROM = load_rom(find_rom(None, environ={}))


def written(emulator: Emulator, *pokes: tuple[int, int]) -> bytes:
    for address, value in pokes:
        emulator.write(address, value)
    return emulator.dump_state()


def test_a_begun_game_passes_and_is_left_as_it_was(emulator: Emulator) -> None:
    state = beginning_state(ROM)
    check_playable(emulator, state, "it")
    assert emulator.dump_state() == state


def test_the_title_screen_is_no_game() -> None:
    emulator = Emulator(ROM.data)
    with pytest.raises(RomError, match="clock does not run") as refused:
        check_playable(emulator, emulator.dump_state(), "the title")
    assert refused.value.exit_code == 7
    assert "the title cannot be trained from" in refused.value.message
    assert "--record-start" in refused.value.fix
    emulator.close()


def test_keys_that_move_nobody_are_noticed(emulator: Emulator) -> None:
    """Set the map's size to one cell, so that every side is an edge."""
    with pytest.raises(RomError, match="no direction key moves the player"):
        check_playable(emulator, written(emulator, (0xC012, 1), (0xC013, 1)), "it")


@pytest.mark.parametrize(
    ("poke", "why"),
    [
        ((ram.PARTY_COUNT, 77), "77 creatures"),
        ((ram.MAP_ID, 250), "map 250"),
        ((ram.PLAYER_X, 200), "column 200 of a map of"),
    ],
)
def test_memory_that_cannot_be_the_games_is_told_by_its_oddest_number(
    emulator: Emulator, poke: tuple[int, int], why: str
) -> None:
    with pytest.raises(RomError, match=why):
        check_playable(emulator, written(emulator, poke), "it")


def test_a_text_on_the_screen_is_closed_first(emulator: Emulator) -> None:
    for _ in range(3):
        emulator.press("start")
        if emulator.ram()[ram.FONT_LOADED - ram.RAM_START] & 1:
            break
    check_playable(emulator, emulator.dump_state(), "it")


def test_the_cartridges_own_beginning_is_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "Daddy.pokemon.starts.playability_check.check_playable", lambda *_: pytest.fail("asked")
    )
    check_start_state(TrainingSettings())


def test_a_given_start_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        "Daddy.pokemon.starts.playability_check.check_playable",
        lambda _, __, what: asked.append(what),
    )
    check_start_state(TrainingSettings(start="bedroom"))
    assert asked == ["the start state 'bedroom' of Daddy cartridge"]
