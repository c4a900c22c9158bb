"""The process beside a viewer that plays agents' inputs: `python -m Daddy.pokemon.live.booth`.

Words come in on standard input and go out on standard output (`Daddy.core.booth`); a window knows
no emulator, and is never kept waiting by one. Ends with its standard input.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Sequence
from functools import partial

from Daddy.core import booth
from Daddy.core.booth import Kind, Splitter, Word
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import run_entry
from Daddy.core.machine import die_with_parent, lower_priority
from Daddy.core.rom import load_rom
from Daddy.pokemon.emulator import FRAMES_PER_SECOND
from Daddy.pokemon.live.judge import Judge
from Daddy.pokemon.live.lane import Lane, Outlet
from Daddy.pokemon.rom import find_rom

_READ_BYTES = 1 << 16
_MOST_LANES = 16
_NICENESS = 5


class Booth:
    """Lanes by their numbers."""

    def __init__(self, judge: Judge, out: int, clock: Clock) -> None:
        self._judge, self._out, self._clock = judge, out, clock
        self._lock = threading.Lock()
        self._lanes: dict[int, Lane] = {}

    def hear(self, word: Word) -> None:
        """A word of the viewer's; ValueError for one that it does not say."""
        if word.kind == Kind.PIECE:
            captured_s, piece = booth.read_piece_word(word.body)
            lane = self._lane(word.lane)
            if lane is not None:
                lane.hear(captured_s, piece)
        elif word.kind == Kind.LEAVE:
            if lane := self._lanes.pop(word.lane, None):
                lane.close()
        elif word.kind == Kind.SEEK:
            if lane := self._lanes.get(word.lane):
                lane.seek(round(booth.read_seek(word.body) * FRAMES_PER_SECOND))
        else:
            raise ValueError(f"a viewer does not say {word.kind}")

    def _lane(self, number: int) -> Lane | None:
        if number not in self._lanes and len(self._lanes) < _MOST_LANES:
            outlet = Outlet(
                lambda one: self._say(booth.verdict(number, one)),
                lambda one: self._say(booth.shown(number, one)),
            )
            self._lanes[number] = Lane(self._judge, outlet, self._clock)
        return self._lanes.get(number)

    def _say(self, word: Word) -> None:
        """Whole words, one after another, whichever thread says them."""
        data = memoryview(word.pack())
        with self._lock:
            while data:
                data = data[os.write(self._out, data) :]

    def close(self) -> None:
        """End every lane."""
        for lane in self._lanes.values():
            lane.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Entry: 0 when the viewer has gone, 7 without a game that can be played."""
    parser = argparse.ArgumentParser(prog="python -m Daddy.pokemon.live.booth")
    parser.add_argument("--rom", help="the game (default: DADDY_ROM, else the cartridge)")
    args = parser.parse_args(argv)
    die_with_parent()
    lower_priority(_NICENESS)
    rom = load_rom(find_rom(args.rom))
    out = os.dup(1)
    os.dup2(2, 1)  # whatever is printed is no word
    booth_, splitter = Booth(Judge(rom), out, SystemClock()), Splitter()
    for data in iter(partial(os.read, 0, _READ_BYTES), b""):
        for word in splitter.feed(data):
            booth_.hear(word)
    return 0


if __name__ == "__main__":
    sys.exit(run_entry(main))
