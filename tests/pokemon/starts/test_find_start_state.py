from dataclasses import replace
from pathlib import Path

import pytest

from Daddy.core.errors import RomError
from Daddy.core.rom_identity import Rom, load_rom
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.find_rom import cartridge_path, find_rom
from Daddy.pokemon.game_progress import read_progress
from Daddy.pokemon.starts import find_start_state as starting
from Daddy.pokemon.starts.find_start_state import BY_HAND, default_start_name, start_state
from Daddy.pokemon.starts.start_routes import BEGINNING, CARTRIDGE, StartRoute, WalkTo
from Daddy.pokemon.starts.start_state_folder import (
    StartStateFolder,
    default_state_root,
    open_state_folder,
)

ROM = load_rom(find_rom(None, environ={}))
HOME = StartRoute("bedroom", "", CARTRIDGE[0].steps, end_map=37)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StartStateFolder:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return open_state_folder(ROM.sha1)


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    starting.play_routes.cache_clear()
    starting.convert_foreign_state.cache_clear()


def begin(name: str, folder: StartStateFolder, **more: object) -> bytes:
    assert folder.sha1 == ROM.sha1
    return start_state(ROM, name, **more)


def test_a_route_is_played_once_and_found_again(
    folder: StartStateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = begin("pokedex", folder)
    monkeypatch.setattr(starting, "play_routes", lambda *_: pytest.fail("played twice"))
    assert begin("pokedex", folder) == made
    assert len(list(folder.root.rglob("*"))) == 2, "one folder of the game, one state, no rests"


def test_a_new_driver_makes_it_anew(
    folder: StartStateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin("bedroom", folder)
    monkeypatch.setattr(starting, "_PLAYED", "driver999")
    monkeypatch.setattr(starting, "play_routes", lambda *_: b"driven anew")
    assert begin("bedroom", folder) == b"driven anew"


def test_nothing_is_handed_to_another_game(folder: StartStateFolder) -> None:
    begin("bedroom", folder)
    mine = folder.state_path("bedroom", starting._PLAYED)
    other = StartStateFolder(folder.root, "0" * 40)
    theirs = other.state_path("bedroom", starting._PLAYED)
    theirs.parent.mkdir()
    theirs.write_bytes(mine.read_bytes())
    assert other.read_verified("bedroom", starting._PLAYED) is None


@pytest.mark.parametrize(
    "spoil", [lambda d: d[:-9], lambda d: d[:300] + bytes([d[300] ^ 1]) + d[301:], bytes]
)
def test_a_damaged_state_is_made_anew(folder: StartStateFolder, spoil, capsys) -> None:
    made = begin("bedroom", folder)
    path = folder.state_path("bedroom", starting._PLAYED)
    path.write_bytes(spoil(path.read_bytes()) if spoil is not bytes else b"")
    assert begin("bedroom", folder) == made
    assert "is ignored" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_costs_time_and_nothing_else(
    folder: StartStateFolder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = begin("bedroom", folder)
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    starting.play_routes.cache_clear()
    assert begin("bedroom", folder) == made
    assert "is not writable" in capsys.readouterr().err


def test_what_a_person_recorded_wins_over_the_driver(folder: StartStateFolder) -> None:
    state = begin(BEGINNING, folder)
    folder.write_state("pokedex", BY_HAND, state)
    assert begin("pokedex", folder) == state


def test_a_peers_name_means_our_like_and_its_file_is_adopted_by_its_path(
    folder: StartStateFolder, tmp_path: Path
) -> None:
    file = tmp_path / "Bulbasaur.state"
    file.write_bytes(begin("bedroom", folder))
    assert begin("Bulbasaur", folder) == begin("pokedex", folder)
    assert place(begin(str(file), folder)) == place(begin("bedroom", folder))


def place(state: bytes) -> tuple[int, int, int]:
    from Daddy.pokemon.game_progress import read_progress

    emulator = Emulator(ROM.data)
    emulator.restore_state(state)
    now = read_progress(emulator.ram())
    emulator.close()
    return now.map_id, now.y, now.x


def test_a_file_is_judged_once(
    folder: StartStateFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.state"
    path.write_bytes(begin("bedroom", folder))
    first = begin(str(path), folder)
    monkeypatch.setattr(
        "Daddy.pokemon.starts.find_start_state.convert_foreign_state",
        lambda *_: pytest.fail("judged twice"),
    )
    assert begin(str(path), folder) == first


def test_a_file_far_too_large_is_no_state(folder: StartStateFolder, tmp_path: Path) -> None:
    (tmp_path / "film.state").write_bytes(bytes(3 << 20))
    with pytest.raises(RomError, match=r"cannot read the save state .*larger than"):
        begin(str(tmp_path / "film.state"), folder)


def test_a_name_is_no_file_of_the_folder_one_happens_to_stand_in(
    folder: StartStateFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bedroom").write_bytes(b"a drawing")
    monkeypatch.chdir(tmp_path)
    assert begin("bedroom", folder) == begin("bedroom", folder)


def test_an_unknown_name_is_told_with_the_known_ones(folder: StartStateFolder) -> None:
    folder.write_state("brock", BY_HAND, begin(BEGINNING, folder))
    with pytest.raises(RomError, match="no start state 'mew'") as refused:
        begin("mew", folder)
    assert "beginning, bedroom, pokedex, brock" in refused.value.fix
    assert "--record-start mew" in refused.value.fix


def test_a_game_that_nobody_knows_has_no_routes_but_a_beginning(folder: StartStateFolder) -> None:
    unknown = replace(ROM, name="unknown 12345678")
    with pytest.raises(RomError, match="no start state 'pokedex' of unknown"):
        start_state(unknown, "pokedex")
    assert start_state(unknown) == begin(BEGINNING, folder)


def test_where_the_driver_gives_up_the_message_has_step_place_and_the_way_out(
    folder: StartStateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = StartRoute("pokedex", "bedroom", (WalkTo(0, 0),), end_map=37)
    known = {"bedroom": HOME, "pokedex": far}
    monkeypatch.setattr(starting, "routes_by_name", lambda _: known)
    monkeypatch.setattr(starting, "ATTEMPTS", 1)
    with pytest.raises(
        RomError, match=r"step 1 of 1, WalkTo\(x=0, y=0.*at Home \(\d, \d\)"
    ) as stuck:
        begin("pokedex", folder)
    assert stuck.value.exit_code == 7
    assert "python -m Daddy.play --record-start pokedex" in stuck.value.fix


def test_the_header_of_the_real_cartridge_around_another_game_is_refused_by_the_driver(
    monkeypatch: pytest.MonkeyPatch, folder: StartStateFolder
) -> None:
    """Make a 1 MiB ROM of the real game's kind (MBC3, RAM, battery) that never opens a menu."""
    data = bytearray(1 << 20)
    data[0x100:0x102] = b"\x18\xfe"
    data[0x134:0x143] = b"POKEMON RED".ljust(15, b"\0")
    data[0x147:0x14A] = bytes((0x13, 5, 3))
    total = 0
    for byte in data[0x134:0x14D]:
        total = (total - byte - 1) & 0xFF
    data[0x14D] = total
    monkeypatch.setattr("Daddy.pokemon.starts.route_player.MAX_PRESSES", 40)
    monkeypatch.setattr(starting, "ATTEMPTS", 1)
    red = Rom("Pokémon Red", "f" * 40, bytes(data), real=True)
    with pytest.raises(RomError, match=r"'pokedex' of Pokémon Red.*step 1 of 7, OpenMenu\(\)"):
        start_state(red)


def test_the_default_folder_is_the_persons_cache() -> None:
    assert default_state_root({}, Path("/home/you")) == Path("/home/you/.cache/daddy/starts")
    moved = default_state_root({"XDG_CACHE_HOME": "/scratch"}, Path("/home/you"))
    assert moved == Path("/scratch/daddy/starts")


def test_the_cartridge_begins_where_it_always_did() -> None:
    assert cartridge_path().exists()
    assert default_start_name(ROM) == BEGINNING


CARTRIDGE = load_rom(find_rom(None, environ={}))
EMPTY = bytes(0x100) + b"\x18\xfe" + bytes(0x4B) + b"\xe7" + bytes(32 * 1024 - 0x14E)
"""Make a game that loops for ever, with a valid header checksum."""


def test_the_game_has_begun_and_waits_for_the_player() -> None:
    emulator = Emulator(CARTRIDGE.data)
    emulator.restore_state(starting.beginning_state(CARTRIDGE))
    image = emulator.ram()
    progress = read_progress(image)
    assert progress.placed
    assert not progress.text_box
    assert not progress.joypad_ignored
    assert image[ram.STATUS_FLAGS_6 - ram.RAM_START] & 1
    emulator.close()


def test_the_start_state_is_the_same_every_time() -> None:
    first = starting.beginning_state(CARTRIDGE)
    starting.beginning_state.cache_clear()
    assert starting.beginning_state(CARTRIDGE) == first


def test_a_game_that_never_begins_is_an_error_and_no_endless_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(starting, "_KEY_LIMIT", 5)
    with pytest.raises(RomError, match="did not begin after 5 keys"):
        starting.beginning_state(Rom("empty", "", EMPTY, real=False))


def test_the_real_game_begins_when_its_clock_runs_and_not_when_it_has_a_place() -> None:
    """Red sets the player's map while the introduction is still running."""
    emulator = Emulator(CARTRIDGE.data)
    emulator.restore_state(starting.beginning_state(CARTRIDGE))
    emulator.write(ram.STATUS_FLAGS_6, 0)
    assert not starting._begun(emulator, real=True)
    emulator.write(ram.STATUS_FLAGS_6, 1)
    assert starting._begun(emulator, real=True)
    emulator.close()


def test_a_file_that_no_game_boy_starts_is_an_error_of_ours() -> None:
    with pytest.raises(RomError, match="cannot start this game"):
        Emulator(bytes(32 * 1024))
