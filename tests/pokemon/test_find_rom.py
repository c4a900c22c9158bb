import hashlib
from pathlib import Path

import pytest

from Daddy.core import rom_identity
from Daddy.core.errors import RomError
from Daddy.core.rom_identity import BLUE_SHA1, RED_SHA1, load_rom
from Daddy.pokemon.find_rom import cartridge_path, find_rom


def fake_rom(path: Path, title: bytes = b"SOMETHING") -> Path:
    data = bytearray(32 * 1024)
    data[0x134 : 0x134 + len(title)] = title
    path.write_bytes(data)
    return path


def test_without_any_setting_the_free_cartridge_is_played() -> None:
    assert find_rom(None, environ={}) == cartridge_path()
    assert find_rom("", environ={}) == cartridge_path()
    cartridge = load_rom(cartridge_path())
    assert not cartridge.real
    assert cartridge.name == "Daddy cartridge"


def test_the_setting_wins_over_the_environment_variable(tmp_path: Path) -> None:
    environ = {"DADDY_ROM": str(tmp_path / "other.gb")}
    assert find_rom(None, environ) == tmp_path / "other.gb"
    assert find_rom(tmp_path / "mine.gb", environ) == tmp_path / "mine.gb"


def test_a_missing_rom_names_the_path_and_the_ways_out(tmp_path: Path) -> None:
    with pytest.raises(RomError, match=r"nowhere\.gb") as caught:
        load_rom(tmp_path / "nowhere.gb")
    assert caught.value.exit_code == 7
    assert "DADDY_ROM" in caught.value.fix


def test_a_file_that_is_no_game_is_refused_by_its_size(tmp_path: Path) -> None:
    (tmp_path / "note.gb").write_bytes(b"hello")
    with pytest.raises(RomError, match="5 bytes"):
        load_rom(tmp_path / "note.gb")


def test_red_and_blue_are_known_by_their_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fake_rom(tmp_path / "red.gb")
    sha1 = hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()
    monkeypatch.setitem(rom_identity._KNOWN, sha1, "Pokémon Red")
    found = load_rom(path)
    assert (found.name, found.real, found.sha1) == ("Pokémon Red", True, sha1)
    assert {RED_SHA1, BLUE_SHA1} <= set(rom_identity._KNOWN)


def test_yellow_is_refused_with_the_reason_even_if_unknown_games_are_allowed(
    tmp_path: Path,
) -> None:
    yellow = fake_rom(tmp_path / "y.gb", b"POKEMON YELLOW")
    with pytest.raises(RomError, match="addresses differ"):
        load_rom(yellow, allow_unknown=True)


def test_an_unknown_game_needs_to_be_allowed_and_then_says_so(tmp_path: Path) -> None:
    unknown = fake_rom(tmp_path / "u.gb")
    with pytest.raises(RomError, match="not a game we know") as caught:
        load_rom(unknown)
    assert "--allow-unknown-rom" in caught.value.fix
    with pytest.warns(UserWarning, match="unknown game"):
        assert load_rom(unknown, allow_unknown=True).name.startswith("unknown")
