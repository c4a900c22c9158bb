"""Tests that the committed image equals the build of the source, with a valid header."""

import hashlib
import re
import sys
from pathlib import Path

import pytest

from Daddy.core.rom_identity import CARTRIDGE_SHA1, LEAN_CARTRIDGE_SHA1, load_rom
from Daddy.core.run_subprocess import run_command
from Daddy.pokemon.find_rom import cartridge_path
from scripts.cartridge.__main__ import main
from scripts.cartridge.build import LEAN, SOURCE, build
from scripts.cartridge.expressions import AsmError
from scripts.cartridge.header import header_checksum

ROM = cartridge_path().read_bytes()


@pytest.mark.parametrize("name", ["daddy.gb", "free_cartridge_tables.py"])
def test_rebuilding_gives_the_committed_bytes(tmp_path: Path, name: str) -> None:
    assert main([], tmp_path) == 0
    assert (tmp_path / name).read_bytes() == (cartridge_path().parent / name).read_bytes()


def test_the_committed_image_is_the_one_that_is_known_by_its_hash() -> None:
    assert hashlib.sha1(ROM).hexdigest() == CARTRIDGE_SHA1


def test_the_lean_image_is_known_too_and_its_symbols_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "lean.gb"
    assert main(["--lean", str(path)]) == 0
    lean = load_rom(path)
    assert (lean.sha1, lean.real) == (LEAN_CARTRIDGE_SHA1, False)
    assert build(LEAN)[1] | {"BUSY_WORK": 0} == build()[1] | {"BUSY_WORK": 0}


def test_a_constant_that_the_source_does_not_have_is_refused() -> None:
    with pytest.raises(AsmError, match="no constant BUSY_WROK"):
        build({"BUSY_WROK": 1})


def test_check_says_yes_for_the_committed_files_and_no_for_another_image(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check"]) == 0
    assert main([], tmp_path) == 0
    (tmp_path / "daddy.gb").write_bytes(ROM[:-1] + b"\x01")
    assert main(["--check"], tmp_path) == 1
    assert "daddy.gb differ" in capsys.readouterr().out


def test_the_header_is_valid_and_names_the_real_games_kind_of_cartridge() -> None:
    assert len(ROM) == 0x8000
    assert ROM[0x14D] == header_checksum(ROM)
    assert int.from_bytes(ROM[0x14E:0x150], "big") == sum(ROM[:0x14E] + ROM[0x150:]) & 0xFFFF
    assert ROM[0x134:0x139] == b"DADDY"
    assert ROM[0x147] == 0x13
    assert ROM[0x149] == 3


def test_the_logo_of_licensed_cartridges_is_not_there() -> None:
    assert not any(ROM[0x104:0x134])


def test_the_cartridge_can_be_read_without_an_emulator_or_numpy() -> None:
    script = (
        "import sys, scripts.cartridge.build\n"
        "sys.exit(bool({'pyboy', 'numpy', 'torch'} & set(sys.modules)))"
    )
    assert run_command([sys.executable, "-c", script], timeout_s=60).returncode == 0


@pytest.mark.parametrize(("word", "most", "many"), [("say", 18, 100), ("ask", 13, 3)])
def test_every_line_of_dialogue_fits_the_text_box(word: str, most: int, many: int) -> None:
    """Texts of a question leave room for its answers."""
    said = [
        line
        for path in SOURCE.glob("*.asm")
        for line in path.read_text().splitlines()
        if line.strip().startswith(f"{word} ")
    ]
    assert len(said) >= many
    lines = [text for line in said for text in re.findall(r'"([^"]*)"', line)]
    assert [text for text in lines if len(text) > most] == []


def test_nothing_in_the_source_touches_the_sound() -> None:
    registers = re.compile(r"\$FF[123][0-9A-F]\b|\bNR\d\d\b")
    allowed = {"hardware.asm"}
    hits = [
        path.name
        for path in SOURCE.glob("*.asm")
        if path.name not in allowed and registers.search(path.read_text())
    ]
    assert hits == []
    assert not re.search(r"\$FF[123]", (SOURCE / "hardware.asm").read_text())
