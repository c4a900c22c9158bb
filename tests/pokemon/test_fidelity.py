"""Tests the bench that reads save states: valid ones are listed, others refused with a reason."""

import gzip
import json
import sys
from itertools import islice
from pathlib import Path

import pytest

from Daddy.core.errors import UsageError
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.bag import HM_BITS, REQUIRED_ITEMS
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.find_rom import cartridge_path
from Daddy.pokemon.starts.state_file_formats import work_ram
from scripts.benches import __main__ as benches
from scripts.benches import fidelity
from scripts.benches._state_report import doubts, item_name, letters, table
from tests.pokemon.images import creature, image, put
from tests.pokemon.lookalike import lookalike
from tests.pokemon.starts.test_state_file_formats import states as pyboy_states


@pytest.fixture(name="states")
def _states(tmp_path: Path) -> Path:
    folder = tmp_path / "states"
    folder.mkdir()
    (milestone, good), *_ = islice(fidelity._played(), 4, 5)
    (folder / f"{milestone}.state").write_bytes(good)
    for name, data in fidelity._damaged_states(good):
        (folder / name).write_bytes(data)
    return folder


def test_the_good_state_is_told_and_each_bad_one_is_refused_by_name(
    states: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("DADDY_ROM", raising=False)
    told = tmp_path / "told.json"
    assert benches.main(["fidelity", "--states", str(states), "--json", str(told)]) == 0
    figures = json.loads(told.read_text())["figures"]
    assert (figures["files"], figures["read"]) == (6, 1)
    assert "it is damaged" in figures["refused"]["x-cut-short.state"]
    assert "7 bytes" in figures["refused"]["x-not-a-state.txt"]
    assert "none that has begun" in figures["refused"]["x-of-nothing.state"]
    assert "begins with 16: no format" in figures["refused"]["x-of-a-newer-emulator.state"]
    assert "another game" in figures["refused"]["x-of-another-game.state"]
    table = figures["got_almanac.state"]
    assert table["milestones"].startswith("5 of ")
    assert "got_almanac" in table["milestones"]
    assert table["doubts"] == "none"
    assert table["to train from"] == "fit"
    assert "x-cut-short.state" in capsys.readouterr().out


def test_with_a_rom_each_bad_one_is_refused_by_the_emulator(states: Path) -> None:
    refused = {
        path.stem: fidelity.read_state_file(path, cartridge_path(), real=False).refused
        for path in states.glob("x-*")
    }
    assert "cannot read" in refused["x-cut-short"]
    assert "cannot read" in refused["x-of-nothing"]
    assert "newer PyBoy" in refused["x-of-a-newer-emulator"]
    assert "another game" in refused["x-of-another-game"]


def _another_players(states: Path) -> bytes:
    """Rename the player in a state, so that it is no longer one of the cartridge's."""
    data = (states / "got_almanac.state").read_bytes()
    image = bytearray(work_ram(data))
    at = data.index(image)
    put(image, ram.PLAYER_NAME, 0x91, 0x84, 0x83, 0x50)
    return data[:at] + image + data[at + len(image) :]


def test_without_a_rom_a_state_is_read_by_itself_and_other_files_are_named(
    states: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state of another game than the cartridge must not be played on the cartridge."""
    monkeypatch.delenv("DADDY_ROM", raising=False)
    monkeypatch.setattr(fidelity, "run_child", lambda *_, **__: pytest.fail("it was played"))
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "a.state").write_bytes(_another_players(states))
    (folder / "b.sav").write_bytes(bytes(32_768))
    (folder / "c.srm").write_bytes(bytes(32_768 + 48))
    (folder / "d.sgm").write_bytes(gzip.compress(b"anything"))
    figures = fidelity.run(quick=True, states=folder)
    told, refused = figures["a.state"], figures["refused"]
    assert isinstance(told, dict)
    assert isinstance(refused, dict)
    assert told["names"].startswith("RED and ")
    assert told["to train from"] == "not checked: name your ROM, DADDY_ROM=PokemonRed.gb"
    assert sorted(refused) == ["b.sav", "c.srm", "d.sgm"]
    assert all("battery save" in refused[name] for name in ("b.sav", "c.srm"))
    assert "DADDY_ROM" in refused["c.srm"]
    assert "VisualBoyAdvance" in refused["d.sgm"]


def test_a_state_that_this_pyboy_cannot_load_is_read_by_itself(
    states: Path, tmp_path: Path
) -> None:
    """PyBoy 2.8.1 and 2.6.1 wrote these states; 2.7.0 loads neither."""
    for version, words in (("2.8.1", "format 29"), ("2.6.1", "cannot read this save state")):
        state = tmp_path / f"{version}.state"
        state.write_bytes(pyboy_states()[version])
        told = fidelity.read_state_file(state, cartridge_path(), real=False).table
        assert told["map"].startswith("37 Home")
        assert told["to train from"].startswith("not checked: ")
        assert words in told["to train from"]


@pytest.mark.parametrize(
    ("program", "limit_s", "words"),
    [
        ("import time; time.sleep(60)", 0.5, "hung the emulator for 0.5 s"),
        ("import os; os.abort()", 30.0, "crashed the emulator (SIGABRT)"),
        ("raise MemoryError('too much')", 30.0, "MemoryError: too much"),
    ],
)
def test_a_state_that_takes_its_reader_down_takes_nobody_else(
    states: Path, monkeypatch: pytest.MonkeyPatch, program: str, limit_s: float, words: str
) -> None:
    monkeypatch.setattr(fidelity, "READER", (sys.executable, "-c", program))
    found = fidelity.read_state_file(states / "got_almanac.state", cartridge_path(), False, limit_s)
    assert words in found.refused
    assert found.table == {}


def test_contradictions_by_the_handful_are_another_game(
    states: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {"not_started": None, "stopped": None, "doubts": ["a", "b", "c"], "table": {"x": "y"}}
    monkeypatch.setattr(
        fidelity, "READER", (sys.executable, "-c", f"print('''{json.dumps(answer)}''')")
    )
    state = states / "got_almanac.state"
    assert "a; b; c" in fidelity.read_state_file(state, cartridge_path(), real=False).refused
    answer["doubts"] = ["a"]
    monkeypatch.setattr(
        fidelity, "READER", (sys.executable, "-c", f"print('''{json.dumps(answer)}''')")
    )
    assert fidelity.read_state_file(state, cartridge_path(), real=False).table == {"x": "y"}


def test_a_state_from_which_the_game_does_not_go_on_is_refused(tmp_path: Path) -> None:
    """The memory looks like a begun game, but this ROM does not play on from it."""
    rom, state = tmp_path / "game.gb", tmp_path / "looks-begun.state"
    rom.write_bytes(lookalike())
    emulator = Emulator(rom.read_bytes())
    emulator.wait(120)
    for address in (ram.STATUS_FLAGS_6, ram.MAP_ID):
        emulator.write(address, 1)
    state.write_bytes(emulator.dump_state())
    emulator.close()
    refused = fidelity.read_state_file(state, rom, real=True).refused
    assert "does not go on from it: the play time stands still" in refused


def test_a_folder_that_is_none_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder"):
        fidelity.run(quick=True, states=tmp_path / "nowhere")


def begun() -> bytearray:
    """The cartridge shortly after its first badge."""
    data = image(status_flags_6=1, map_id=2, player_y=7, player_x=4, facing=4, badges=1)
    put(data, ram.BEATEN_LEADERS, 1)
    put(data, ram.MAP_HEIGHT, 18, 20)
    put(data, ram.PLAYER_NAME, 0x80, 0x81, 0x50)
    put(data, ram.PLAY_TIME, 1, 0, 2, 3, 4)
    put(data, ram.MONEY, 0x00, 0x31, 0x75)
    put(data, ram.POKEDEX_OWNED, 0b1)
    put(data, ram.POKEDEX_SEEN, 0b101)
    put(data, ram.BAG_COUNT, 1, 0x46, 1, 0xFF)
    put(data, ram.PC_COUNT, 1, 0xC4, 1, 0xFF)
    put(data, ram.EVENTS, 0b1)
    put(data, 0xD755, 0x80)
    put(data, 0xD754, 0x01)
    creature(data, 0, species=0x99, hp=20, max_hp=25, level=9)
    put(data, ram.PARTY_SPECIES, 0x99, 0xFF)
    return put(data, ram.PARTY_MONS + ram.MON_MOVES, 0x21, 0x0F)


def test_the_table_tells_what_a_person_can_check_against_the_screen() -> None:
    told = table(begun(), real=True)
    assert told["game"] == "started"
    assert told["doubts"] == "none"
    assert told["map"] == "2 Pewter City, 36 x 40 cells, 0 ways out"
    assert told["place"] == "row 7, column 4, facing up"
    assert told["names"] == "AB and nobody"
    assert told["play time"] == "1:02:03"
    assert told["money"] == "3175, coins 0"
    assert told["badges"] == "boulder"
    assert told["  1"].startswith("species 153, level 9, HP 20/25")
    assert "moves 33 cut" in told["  1"]
    assert told["bag"] == "parcel x 1"
    assert told["in the PC"] == "HM01 x 1"
    assert told["pokedex"] == "2 seen, 1 owned"
    assert told["milestones"] == "3 of 68: followed_oak, beat_brock, cut_taught"
    assert told["next"] == "asked_to_choose"
    assert told["for now"] == "museum_ticket"


def test_a_title_screen_is_told_as_one() -> None:
    assert "clock does not run" in table(image(), real=True)["game"]


@pytest.mark.parametrize(
    ("address", "values", "words"),
    [
        (ram.PARTY_COUNT, [7], "a party of 7"),
        (ram.PARTY_SPECIES, [0x98], "list of species"),
        (ram.PARTY_MONS + ram.MON_HP, [0x01, 0x00], "256 of 25 HP"),
        (ram.PARTY_MONS + ram.MON_LEVEL, [0], "no level"),
        (ram.BAG_COUNT, [21], "21 kinds of items"),
        (ram.BAG_COUNT, [2], "does not end where its count says"),
        (ram.BAG, [0x46, 100], "too high a number"),
        (ram.MONEY, [0x0A], "no decimal number"),
        (ram.POKEDEX_OWNED, [0b10], "owns what it has not seen"),
        (ram.POKEDEX_SEEN + 18, [0x80], "more than there are"),
        (ram.MAP_ID, [11], "no game has a map 11"),
        (ram.IN_BATTLE, [3], "battle state 3"),
        (ram.FACING, [5], "facing 5"),
        (ram.BADGES, [3], "badges 0x03 of leaders 0x01"),
        (ram.PLAY_TIME, [1, 0, 60], "play time with 60 minutes"),
    ],
)
def test_a_contradiction_is_told_in_words(address: int, values: list[int], words: str) -> None:
    assert doubts(begun(), real=True) == ()
    (told,) = doubts(put(begun(), address, *values), real=True)
    assert words in told


def test_any_bytes_make_a_table() -> None:
    """A damaged state does not crash the bench."""
    for filling in (0x00, 0x5A, 0xFF):
        assert table(bytes([filling]) * ram.RAM_SIZE, real=True)["doubts"]


def test_the_machines_that_teach_field_moves_are_five() -> None:
    assert [item_name(n) for n in range(256) if HM_BITS >> n & 1] == [
        f"HM0{n}" for n in range(1, 6)
    ]


def test_the_items_that_the_story_needs_have_names() -> None:
    assert sorted(map(item_name, REQUIRED_ITEMS)) == sorted(
        (
            *("HM01", "HM03", "HM04", "card key", "flute", "gold teeth", "lift key", "parcel"),
            *("secret key", "ship's ticket", "silph scope"),
        )
    )
    assert (item_name(0x14), item_name(0xC9), item_name(0xFA)) == ("item 20", "TM01", "TM50")


def test_a_name_ends_at_its_mark_and_foreign_signs_are_dots() -> None:
    assert letters(bytes((0x91, 0xA4, 0xA3, 0xF6, 0xFF, 0x7F, 0x01, 0x50, 0x80))) == "Red09 ·"
    assert letters(bytes(11)) == ""
