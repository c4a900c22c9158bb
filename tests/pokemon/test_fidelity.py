"""The bench that reads a person's save states: good ones are told, bad ones refused by name."""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path

import pytest

from Daddy.core.errors import UsageError
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.rom import cartridge_path
from scripts.benches import __main__ as benches
from scripts.benches import fidelity
from tests.pokemon.lookalike import lookalike


@pytest.fixture(name="states")
def _states(tmp_path: Path) -> Path:
    folder = tmp_path / "states"
    folder.mkdir()
    (milestone, good), *_ = islice(fidelity._played(), 4, 5)
    (folder / f"{milestone}.state").write_bytes(good)
    for name, data in fidelity._bad_ones(good):
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
    assert "cannot read" in figures["refused"]["x-cut-short.state"]
    assert "7 bytes" in figures["refused"]["x-not-a-state.txt"]
    assert "cannot read" in figures["refused"]["x-of-nothing.state"]
    assert "newer PyBoy" in figures["refused"]["x-of-a-newer-emulator.state"]
    assert "another game" in figures["refused"]["x-of-another-game.state"]
    table = figures["got_almanac.state"]
    assert table["milestones"].startswith("5 of ")
    assert "got_almanac" in table["milestones"]
    assert table["doubts"] == "none"
    assert table["to train from"] == "fit"
    assert "x-cut-short.state" in capsys.readouterr().out


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
    found = fidelity.look(states / "got_almanac.state", cartridge_path(), False, limit_s)
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
    assert "a; b; c" in fidelity.look(state, cartridge_path(), real=False).refused
    answer["doubts"] = ["a"]
    monkeypatch.setattr(
        fidelity, "READER", (sys.executable, "-c", f"print('''{json.dumps(answer)}''')")
    )
    assert fidelity.look(state, cartridge_path(), real=False).table == {"x": "y"}


def test_a_state_from_which_the_game_does_not_go_on_is_refused(tmp_path: Path) -> None:
    """Its memory looks begun, but this ROM does not go on with it."""
    rom, state = tmp_path / "game.gb", tmp_path / "looks-begun.state"
    rom.write_bytes(lookalike())
    emulator = Emulator(rom.read_bytes())
    emulator.wait(120)
    for address in (ram.STATUS_FLAGS_6, ram.MAP_ID):
        emulator.write(address, 1)
    state.write_bytes(emulator.save_state())
    emulator.close()
    refused = fidelity.look(state, rom, real=True).refused
    assert "does not go on from it: the play time stands still" in refused


def test_a_folder_that_is_none_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder"):
        fidelity.run(quick=True, states=tmp_path / "nowhere")
