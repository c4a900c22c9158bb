"""What verifies and what shows: no digest is believed, and nothing hangs for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import pytest

from Daddy.core import booth
from Daddy.core.booth import Shown, Word
from Daddy.core.clock import SystemClock
from Daddy.core.piece import Piece
from Daddy.core.rom import Rom, load_rom
from Daddy.pokemon.emulator import PYBOY_VERSION
from Daddy.pokemon.inputs import operations
from Daddy.pokemon.inputs.stretch import Beginning, Stretch
from Daddy.pokemon.live.booth import Booth
from Daddy.pokemon.live.chain import Passage
from Daddy.pokemon.live.judge import Finding, Judge
from Daddy.pokemon.live.scout import Scout
from Daddy.pokemon.live.show import Show
from Daddy.pokemon.live.vigil import Vigil
from Daddy.pokemon.recordings.feed import beginning
from Daddy.pokemon.recordings.way import made
from Daddy.pokemon.rom import cartridge_path
from Daddy.pokemon.starts.boot import start_state
from Daddy.pokemon.starts.named import BY_HAND
from Daddy.pokemon.starts.shelf import shelf_of
from tests.patience import until
from tests.pokemon.live.hands import digest_after

DONE = operations.press(0) + operations.write(0xFFD3, 9) + operations.press(4)


@pytest.fixture(scope="module")
def rom() -> Rom:
    return load_rom(cartridge_path())


def test_what_is_shown_is_compared_once_more_and_the_way_there_can_be_left(rom: Rom) -> None:
    place, stop = zlib.compress(start_state(rom), 1), threading.Event()
    right = Stretch(DONE, 48, digest_after(rom, DONE))
    shown: list[Shown] = []
    scout = Scout(rom, Vigil(), stop)
    show = Show(rom, shown.append, SystemClock(), stop, Vigil())
    try:
        assert scout.follow(1, 0, right, place)
        wrong = Stretch(DONE, 48, bytes(8))
        assert scout.follow(2, 0, wrong, place) is None
        assert show.play(Passage(1, 0, right, 5.0, 0, place, ()), lambda: False)
        assert [one.frames for one in shown] == list(range(1, 49))
        assert not show.play(Passage(2, 0, wrong, 5.0, 0, place, (), first=20), lambda: False)
        assert len(shown) == 48 + 24
        far = Passage(3, 9, right, 5.0, 9 * 48, place, (right,) * 9)
        assert show.play(far, lambda: True)
        assert (len(shown), show.frames) == (72, 9 * 48)
        stop.set()
        assert scout.follow(1, 1, right, place) is None
    finally:
        show.close()
        scout.close()


def test_an_emulator_hangs_when_it_is_found_at_one_operation_again_and_again() -> None:
    vigil = Vigil(looks=3)
    pulse = vigil.begin()
    assert not any(vigil.look() for _ in range(9))  # nothing is asked of it
    for _ in range(9):
        pulse.begin()
        assert not vigil.look()
    assert [vigil.look() for _ in range(3)] == [False, False, True]
    pulse.rest()
    assert not vigil.look()


HANGS = """
emulator, pulse = Emulator(load_rom(cartridge_path()).data), vigil.begin()
emulator.load_state(start_state(load_rom(cartridge_path())))
for address in range(0xFF80, 0xFFA0):
    emulator.write(address, 0xD3)
with pulse.playing():
    emulator.wait(60)
"""


@pytest.mark.parametrize(("does", "why"), [(HANGS, "hangs"), ("1 / 0", "ZeroDivisionError")])
def test_a_game_that_hangs_and_a_thread_that_dies_end_the_process_with_a_reason(
    does: str, why: str
) -> None:
    script = """
import sys, threading, time
from Daddy.core.clock import SystemClock
from Daddy.core.rom import load_rom
from Daddy.pokemon.rom import cartridge_path
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.live.booth import thread_died, watch
from Daddy.pokemon.live.vigil import Vigil
from Daddy.pokemon.starts.boot import start_state
vigil = Vigil(looks=5)
threading.excepthook = thread_died
def lane():
    exec(sys.argv[1])
threading.Thread(target=lane, daemon=True).start()
watch(vigil, SystemClock(), 0.1)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script, does],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    told = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert (ended.returncode, len(told)) == (1, 1)
    assert why in told[0]


class Busy(Judge):
    """One that is asked and does not answer: a lane's thread that cannot end now."""

    def __init__(self, rom: Rom) -> None:
        super().__init__(rom, 1)
        self.asked, self.free = threading.Event(), threading.Event()

    def hear(self, begins: Beginning) -> Finding:
        self.asked.set()
        self.free.wait(60)
        return super().hear(begins)


def test_whoever_leaves_is_not_waited_for(rom: Rom) -> None:
    judge, out = Busy(rom), os.open(os.devnull, os.O_WRONLY)
    beside = Booth(judge, out, SystemClock(), Vigil())
    offer = Piece(1, 0, Beginning(rom.sha1, PYBOY_VERSION, "0" * 64, "", "0" * 16).pack())
    try:
        beside.hear(booth.piece(1, 0.0, offer))
        assert judge.asked.wait(60)
        left = threading.Thread(target=beside.hear, args=(Word(booth.Kind.LEAVE, 1),), daemon=True)
        left.start()
        left.join(20)
        assert not left.is_alive()
        (lane,) = beside._ending
    finally:
        judge.free.set()
    assert until(lambda: lane.is_over)
    os.close(out)


def test_no_start_that_is_offered_reads_or_writes_what_this_person_keeps(
    rom: Rom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ours = beginning(rom, start_state(rom), "", "", "", steps=1)
    for name in ("spot", "pokedex"):
        shelf_of(rom.sha1).put(name, BY_HAND, start_state(rom))
    kept, judge = sorted(tmp_path.rglob("*")), Judge(rom, 1)

    def found(start: str, moment: str) -> str:
        facts = {**ours.__dict__, "start": start, "moment": moment}
        return judge.hear(Beginning(**facts)).reason

    assert "no route" in found("spot", ours.moment)
    assert found("pokedex", made(rom, "pokedex")[0]) == ""
    assert sorted(tmp_path.rglob("*")) == kept
