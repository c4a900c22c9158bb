"""Tests the handling of a user's ROM (found, identified, started, read) with a lookalike."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from Daddy.core import rom_identity
from Daddy.core.errors import RomError
from Daddy.core.rom_identity import ENVIRONMENT_VARIABLE, Rom, load_rom
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon import story_milestones
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.env import PokemonRedEnv
from Daddy.pokemon.find_rom import cartridge_path, find_rom
from Daddy.pokemon.game_progress import not_started_reason, read_progress
from Daddy.pokemon.party import CUT
from Daddy.pokemon.starts import find_start_state as starting
from Daddy.pokemon.starts import route_player
from scripts.benches._state_report import play_time_s, table
from scripts.cartridge.header import header_checksum
from tests.pokemon.fact_sheet import SLOT_HP, SLOT_LEVEL, SLOT_MAX_HP
from tests.pokemon.lookalike import BANKS, NOTES, lookalike, mark

_BOOT_FRAMES = 120
"""The console's boot program runs first, about 60 frames."""


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    path = tmp_path / "PokemonRed.gb"
    path.write_bytes(lookalike())
    return path


@pytest.fixture(name="known")
def _known(file: Path, monkeypatch: pytest.MonkeyPatch) -> Rom:
    """The lookalike with its hash among the known games."""
    sha1 = hashlib.sha1(file.read_bytes(), usedforsecurity=False).hexdigest()
    monkeypatch.setitem(rom_identity._KNOWN, sha1, "Pokémon Red")
    return load_rom(find_rom(None, environ={ENVIRONMENT_VARIABLE: str(file)}))


@pytest.fixture(name="emulator")
def _emulator() -> Iterator[Emulator]:
    emulator = Emulator(lookalike())
    emulator.wait(_BOOT_FRAMES)
    yield emulator
    emulator.close()


def put(emulator: Emulator, address: int, *values: int) -> None:
    for at, value in enumerate(values, address):
        emulator.write(at, value)


def test_the_right_header_is_not_enough_the_hash_decides(file: Path) -> None:
    with pytest.raises(RomError, match="not a game we know") as caught:
        load_rom(file)
    assert rom_identity.RED_SHA1 in str(caught.value)
    with pytest.raises(RomError):
        PokemonRedEnv(file)


def test_a_blue_and_a_yellow_header_are_told_apart(tmp_path: Path) -> None:
    for title, words in ((b"POKEMON BLUE", "not a game we know"), (b"POKEMON YELLOW", "Yellow")):
        path = tmp_path / "game.gb"
        path.write_bytes(lookalike(title))
        with pytest.raises(RomError, match=words):
            load_rom(path)


def test_the_known_hash_makes_it_the_real_game(known: Rom) -> None:
    assert (known.name, known.real, len(known.data)) == ("Pokémon Red", True, 1_048_576)


def test_all_64_banks_are_there(emulator: Emulator) -> None:
    span = ((NOTES, NOTES + BANKS - 1),)
    image = emulator.ram(span)
    noted = image[NOTES - ram.RAM_START : NOTES - ram.RAM_START + BANKS - 1]
    assert list(noted) == [mark(bank) for bank in range(1, BANKS)]


def test_the_driver_of_the_real_game_says_where_it_got_stuck(
    known: Rom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route_player, "MAX_PRESSES", 12)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(RomError, match="start state 'pokedex' of Pokémon Red could not") as caught:
        starting.start_state(known)
    assert "step 1 of" in str(caught.value)
    assert "--record-start pokedex" in caught.value.fix
    assert caught.value.exit_code == 7


@pytest.mark.parametrize("title", ["Red", "Blue"])
def test_a_modified_game_is_no_cartridge_and_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, title: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "patched.gb"
    path.write_bytes(retitled(f"POKEMON {title.upper()}"))
    with pytest.warns(UserWarning, match=f"a modified Pokémon {title}: .*may be wrong"):
        patched = load_rom(path, allow_unknown=True)
    assert patched.real
    assert patched.name.startswith(f"Pokémon {title}, modified (")
    assert starting.default_start_name(patched) == "pokedex"
    assert starting._ways_to(patched, "pokedex")
    with pytest.warns(UserWarning, match="modified"):
        game = PokemonRedEnv(path, allow_unknown_rom=True, init_state="beginning")
    game.reset(seed=1)
    game.close()
    assert dict(zip(game.telemetry_names, game.telemetry(), strict=True))["real_game"] == 1.0
    with pytest.raises(RomError, match="not a game we know"):
        load_rom(path)


def test_the_cartridge_is_known_by_its_hash_and_another_title_stays_unknown(
    tmp_path: Path,
) -> None:
    assert not load_rom(cartridge_path(), allow_unknown=True).real
    path = tmp_path / "other.gb"
    for title in ("POKEMON GREEN", "MY POKEMON RED", "DADDY"):
        path.write_bytes(retitled(title))
        with pytest.warns(UserWarning, match="an unknown game"):
            found = load_rom(path, allow_unknown=True)
        assert (found.real, found.name.partition(" ")[0]) == (False, "unknown")


def retitled(title: str) -> bytes:
    """Return our cartridge with another title in its header, and one changed byte at its end."""
    rom = bytearray(cartridge_path().read_bytes())
    rom[0x134:0x143] = title.encode().ljust(15, b"\0")
    rom[0x14D], rom[-1] = header_checksum(rom), rom[-1] ^ 0xFF
    return bytes(rom)


def test_an_unknown_game_has_no_start_state_but_its_beginning(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file.write_bytes(lookalike(b"ANOTHER GAME"))
    with pytest.warns(UserWarning, match="unknown game"):
        unknown = load_rom(file, allow_unknown=True)
    with pytest.raises(RomError, match="no start state 'pokedex' of unknown"):
        starting.start_state(unknown, "pokedex")
    monkeypatch.setattr(starting, "_KEY_LIMIT", 5)
    with pytest.raises(RomError, match="did not begin after 5 keys"):
        starting.start_state(unknown)


def test_a_game_that_only_waits_has_not_started(emulator: Emulator) -> None:
    assert "clock does not run" in (not_started_reason(emulator.ram()) or "")
    put(emulator, ram.STATUS_FLAGS_6, 1)
    put(emulator, ram.MAP_ID, 38)
    earlier = bytes(emulator.ram())
    emulator.wait(70)
    assert "stands still" in (not_started_reason(emulator.ram(), earlier) or "")


def test_the_examples_of_the_fact_sheet_are_read_through_the_emulator(emulator: Emulator) -> None:
    """Each line is a mistake that another reader of this memory made."""
    put(emulator, ram.PARTY_COUNT, 1, 0x99, 0xFF)
    for slot in (0, 1):
        put(emulator, SLOT_HP[slot], 0x01, 0x02)
        put(emulator, SLOT_LEVEL[slot], 36)
        put(emulator, SLOT_MAX_HP[slot], 0x02, 0x04)
    put(emulator, ram.PARTY_MONS, 0x99)
    put(emulator, ram.PARTY_MONS + ram.MON_MOVES, 0x21, CUT)
    put(emulator, ram.MONEY, 0x01, 0x23, 0x45)
    put(emulator, ram.OPTIONS, 0xC1)
    put(emulator, ram.BADGES, 0b1)
    put(emulator, ram.BAG_COUNT, 2, 0x3F, 1, 0x04, 12, 0xFF)
    put(emulator, 0xD755, 0x80)
    put(emulator, 0xD754, 0x01)
    put(emulator, 0xD886, 0x80, 0xFF)
    put(emulator, ram.PLAY_TIME, 1, 0, 2, 3, 59)
    now = read_progress(emulator.ram())
    assert [(c.species, c.hp, c.max_hp, c.level) for c in now.party] == [(0x99, 258, 516, 36)]
    assert (now.money, now.badge_count, now.options) == (12_345, 1, 0xC1)
    assert now.bag == ((0x3F, 1), (0x04, 12))
    assert now.events == 1 << 0x077 | 1 << 0x068 | 1 << 2559
    assert play_time_s(now.image) == 3723
    assert story_milestones.reached_milestones(now) == {"beat_brock", "cut_taught"}
    told = table(emulator.ram(ram.WHOLE), real=True)
    assert told["bag"] == "ship's ticket x 1, item 4 x 12"
    assert told["options"] == "text delay 1, style set, animations off"


def test_a_warp_that_is_half_done_is_no_place(emulator: Emulator) -> None:
    put(emulator, ram.MAP_ID, 193)
    put(emulator, ram.PLAYER_Y, 139, 4)
    put(emulator, ram.MAP_HEIGHT, 4, 5)
    assert not read_progress(emulator.ram()).placed
    put(emulator, ram.PLAYER_Y, 6)
    assert read_progress(emulator.ram()).placed


def test_a_save_state_of_it_comes_back_with_its_facts(emulator: Emulator) -> None:
    put(emulator, ram.BADGES, 0b101)
    state = emulator.dump_state()
    other = Emulator(lookalike())
    other.restore_state(state)
    assert read_progress(other.ram()).badge_count == 2
    other.close()
