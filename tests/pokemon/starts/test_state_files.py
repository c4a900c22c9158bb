"""Tests that a file of a state is checked in a child, whose crash or hang harms nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from Daddy.core.errors import RomError
from Daddy.core.rom_identity import load_rom
from Daddy.pokemon.emulator import STATE_FORMAT, Emulator
from Daddy.pokemon.find_rom import find_rom
from Daddy.pokemon.starts import state_files
from Daddy.pokemon.starts.find_start_state import beginning_state
from Daddy.pokemon.starts.state_files import convert_foreign_state, format_fault
from tests.patience import PATIENCE_S

ROM = load_rom(find_rom(None, environ={}))
STATE = beginning_state(ROM)


def test_a_good_state_comes_back_as_the_same_moment() -> None:
    emulator = Emulator(ROM.data)
    emulator.restore_state(convert_foreign_state(ROM, STATE, "mine"))
    ours = bytes(emulator.ram())
    emulator.restore_state(STATE)
    assert bytes(emulator.ram()) == ours
    emulator.close()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (STATE[:1000], "1,000 bytes"),
        (bytes((29,)) + STATE[1:], r"format 29 of a newer PyBoy.*save it with pyboy 2\.7\.0"),
        (b"{" + STATE[1:], "no version of a PyBoy state"),
    ],
)
def test_what_cannot_be_a_state_of_ours_is_refused_without_a_child(
    data: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        state_files, "run_command", lambda *_, **__: pytest.fail("a child was started")
    )
    with pytest.raises(RomError, match=why):
        convert_foreign_state(ROM, data, "theirs")


@pytest.mark.parametrize("version", [7, 9, 12, STATE_FORMAT])
def test_the_formats_of_the_peers_are_let_through_to_the_child(version: int) -> None:
    assert format_fault(bytes((version,)) + STATE[1:]) is None


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (STATE[:-5], r"cannot read this save state: No data \(PyBoy 2\.6 writes"),
        (STATE + b"123", r"3 bytes are left over \(PyBoy 2\.6"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_by_name(data: bytes, why: str) -> None:
    with pytest.raises(RomError, match=rf"the save state theirs cannot be used.*{why}"):
        convert_foreign_state(ROM, data, "theirs")


def test_a_state_that_hangs_the_emulator_is_ended_in_time() -> None:
    """Two changed bytes of a valid state make pyboy hang."""
    hanging = bytearray(STATE)
    hanging[69], hanging[14] = 247, 189
    with pytest.raises(RomError, match=r"hung the emulator for 1 s"):
        convert_foreign_state(ROM, bytes(hanging), "theirs", limit_s=1.0)


def test_a_crash_of_the_child_is_told_and_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that crashes, as pyboy does on a damaged state, gives a RomError."""
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    really = state_files.run_command
    monkeypatch.setattr(
        state_files,
        "run_command",
        lambda _, limit, **how: really([sys.executable, "-c", crash], limit, **how),
    )
    with pytest.raises(RomError, match=r"crashed the emulator \(SIGSEGV\)"):
        convert_foreign_state(ROM, STATE, "theirs")


def test_the_child_refuses_a_title_screen(tmp_path: Path) -> None:
    emulator = Emulator(ROM.data)
    files = [tmp_path / name for name in ("game", "given", "made")]
    files[0].write_bytes(ROM.data)
    files[1].write_bytes(emulator.dump_state())
    emulator.close()
    argv = [sys.executable, "-m", "Daddy.pokemon.starts.state_files", *map(str, files)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 7
    assert "clock does not run" in done.stderr
    assert not files[2].exists()
