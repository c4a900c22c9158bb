"""Tests of headers of other emulators, and of the work RAM in states of 13 versions of PyBoy.

`pyboy_states.tar.xz` has a state of the free cartridge by each version: 500 frames from power-on.
"""

import gzip
import tarfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from Daddy.core.errors import RomError
from Daddy.core.rom_identity import load_rom
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.find_rom import cartridge_path
from Daddy.pokemon.starts.state_file_formats import battery_ram, foreign_format, work_ram
from Daddy.pokemon.starts.state_files import convert_foreign_state
from scripts.benches._state_report import doubts, letters, table

STATES = Path(__file__).with_name("pyboy_states.tar.xz")
VERSIONS = (
    *("1.0.1", "1.3.0", "1.4.0", "1.4.7", "1.5.0", "1.6.14", "2.2.0", "2.3.0", "2.4.1", "2.5.4"),
    *("2.6.1", "2.7.0", "2.8.1"),
)


@cache
def states() -> Mapping[str, bytes]:
    """Read the states by version."""
    with tarfile.open(STATES) as archive:
        members = {member.name.removesuffix(".state"): member for member in archive}
        opened = {name: archive.extractfile(member) for name, member in members.items()}
        return {name: stream.read() for name, stream in opened.items() if stream}


def test_there_is_a_state_of_each_version() -> None:
    assert sorted(states()) == sorted(VERSIONS)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_work_ram_is_found_in_a_state_of(version: str) -> None:
    """An offset that is wrong by a byte moves the name and contradicts the map."""
    image = work_ram(states()[version])
    told = table(image, real=False)
    assert len(image) == ram.RAM_SIZE
    assert letters(image[ram.PLAYER_NAME - ram.RAM_START :][: ram.NAME_BYTES]) == "ROBIN"
    assert (told["game"], told["map"]) == ("started", "37 Home, 6 x 6 cells, 2 ways out")
    assert told["place"] == "row 2, column 3, facing down"
    assert told["money"] == "3000, coins 0"
    assert doubts(image, real=False) == ()


def test_the_work_ram_is_that_of_the_emulator(emulator: Emulator) -> None:
    emulator.press("down")
    assert work_ram(emulator.dump_state()) == bytes(emulator.ram(ram.WHOLE))


@pytest.mark.parametrize("version", ["1.4.0", "1.4.7", "1.6.14", "2.3.0", "2.4.1"])
def test_older_states_become_start_states(version: str) -> None:
    rom = load_rom(cartridge_path())
    converted = convert_foreign_state(rom, states()[version], version)
    assert letters(work_ram(converted)[ram.PLAYER_NAME - ram.RAM_START :][:11]) == "ROBIN"


@pytest.mark.parametrize("version", ["2.5.4", "2.6.1"])
def test_a_state_of_a_version_that_is_not_read_names_it(version: str) -> None:
    words = rf"No data \(PyBoy {version[:3]} wr.*: save it with 2\.7\.0\)"
    with pytest.raises(RomError, match=words):
        convert_foreign_state(load_rom(cartridge_path()), states()[version], "theirs")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "0 bytes and begins with nothing: no format of a PyBoy state"),
        (b"\x0d" * 167_677, "begins with 13: no format"),
        (b"\x0f" * 83_838, "format 15 of Red or Blue has 167,676 or 167,677: it is damaged"),
        (b"RASTATE\x01", "a save state of RetroArch"),
    ],
    ids=["empty", "unknown format", "damaged", "RetroArch"],
)
def test_a_state_of_an_unknown_layout_is_refused_with_its_numbers(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        work_ram(data)


FOREIGN = [
    (gzip.compress(bytes(99)), "gzip archive, as VisualBoyAdvance"),
    (b"PK\x03\x04" + bytes(99), "zip archive: unpack it"),
    (b"#RZIPv\x01#" + bytes(99), "compressed file of RetroArch: switch the compression"),
    (b"RASTATE\x01" + bytes(99), "save state of RetroArch: save inside the game"),
    (b"\x89PNG\r\n\x1a\n" + bytes(99), "picture; mGBA keeps its save states"),
    (b"\x01\x00\x40\x00" + bytes(71_676), "save state of mGBA: save inside the game"),
    (bytes(50_000) + b"BESS", "save state of SameBoy, BGB or another emulator"),
]


@pytest.mark.parametrize(("data", "words"), FOREIGN, ids=[words for _, words in FOREIGN])
def test_a_file_of_another_program_is_named_with_its_remedy(data: bytes, words: str) -> None:
    with pytest.raises(RomError, match=f"the save state theirs cannot be used: it is a.*{words}"):
        convert_foreign_state(load_rom(cartridge_path()), data, "theirs")


@pytest.mark.parametrize("version", VERSIONS)
def test_no_pyboy_state_is_taken_for_another_programs(version: str) -> None:
    assert foreign_format(states()[version]) is None
    assert battery_ram(states()[version]) is None


@pytest.mark.parametrize("clock", [0, 44, 48])
def test_a_clocks_record_after_the_battery_ram_is_left_out(clock: int) -> None:
    assert battery_ram(bytes(32_768) + b"\1" * clock) == bytes(32_768)
    assert battery_ram(bytes(32_768 + clock + 1)) is None
    assert battery_ram(b"\x1f\x8b" + bytes(32_766)) is None
