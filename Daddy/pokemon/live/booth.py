"""The process beside a viewer that plays agents' inputs: `python -m Daddy.pokemon.live.booth`.

Words come in on standard input and go out on standard output (`Daddy.core.booth`); a window knows
no emulator, and is never kept waiting by one. Ends with its standard input; with one line of why
where one of its emulators hangs or a thread dies: then there are pictures again.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from functools import partial

from Daddy.core import booth
from Daddy.core.booth import Kind, Splitter, Word
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import ExitCode, run_entry
from Daddy.core.machine import die_with_parent, lower_priority
from Daddy.core.rom import load_rom
from Daddy.pokemon.emulator import FRAMES_PER_SECOND
from Daddy.pokemon.live.judge import Judge
from Daddy.pokemon.live.lane import Lane, Outlet
from Daddy.pokemon.live.vigil import Vigil
from Daddy.pokemon.recordings.proof import STEPS
from Daddy.pokemon.rom import find_rom

_READ_BYTES = 1 << 16
_MOST_LANES = 16
"""Among them those whose threads have not ended yet."""
_NICENESS = 5
_LOOK_S = 1.0


class Booth:
    """Lanes by their numbers."""

    def __init__(self, judge: Judge, out: int, clock: Clock, vigil: Vigil) -> None:
        self._judge, self._out, self._clock, self._vigil = judge, out, clock, vigil
        self._lock = threading.Lock()
        self._lanes: dict[int, Lane] = {}
        self._ending: list[Lane] = []

    def hear(self, word: Word) -> None:
        """A word of the viewer's; ValueError for what it does not say. Awaits no emulator."""
        if word.kind == Kind.PIECE:
            captured_s, piece = booth.read_piece_word(word.body)
            lane = self._lane(word.lane)
            if lane is not None:
                lane.hear(captured_s, piece)
        elif word.kind == Kind.LEAVE:
            if lane := self._lanes.pop(word.lane, None):
                lane.close()
                self._ending.append(lane)
        elif word.kind == Kind.SEEK:
            if lane := self._lanes.get(word.lane):
                lane.seek(round(booth.read_seek(word.body) * FRAMES_PER_SECOND))
        else:
            raise ValueError(f"a viewer does not say {word.kind}")

    def _lane(self, number: int) -> Lane | None:
        self._ending = [one for one in self._ending if not one.is_over]
        room = len(self._lanes) + len(self._ending) < _MOST_LANES
        if number not in self._lanes and room:
            outlet = Outlet(
                lambda one: self._say(booth.verdict(number, one)),
                lambda one: self._say(booth.shown(number, one)),
            )
            self._lanes[number] = Lane(self._judge, outlet, self._clock, self._vigil)
        return self._lanes.get(number)

    def _say(self, word: Word) -> None:
        """Whole words, one after another, whichever thread says them."""
        data = memoryview(word.pack())
        with self._lock:
            while data:
                data = data[os.write(self._out, data) :]


def die(why: str) -> None:
    """End the process now, whatever its threads do; the viewer tells why."""
    print(f"error: {why}", file=sys.stderr, flush=True)
    os._exit(int(ExitCode.BUG))


def watch(vigil: Vigil, clock: Clock, look_s: float = _LOOK_S) -> None:
    """End the process when an emulator hangs: nothing else ends one."""
    never = threading.Event()
    while not clock.wait(never, look_s):
        if vigil.look():
            die("the game hangs in the emulator")


def thread_died(args: threading.ExceptHookArgs) -> None:
    """A lane that is half alive would freeze its picture without a word."""
    if not isinstance(args.exc_value, BrokenPipeError):  # the viewer has gone
        traceback.print_exception(args.exc_type, args.exc_value, args.exc_traceback)
    die(f"the emulator's process failed: {args.exc_value!r}")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry: 0 when the viewer has gone, 7 without a game that can be played."""
    parser = argparse.ArgumentParser(prog="python -m Daddy.pokemon.live.booth")
    parser.add_argument("--rom", help="the game (default: DADDY_ROM, else the cartridge)")
    parser.add_argument("--proof-steps", type=int, default=STEPS, help="for tests")
    args = parser.parse_args(argv)
    die_with_parent()
    threading.excepthook = thread_died
    lower_priority(_NICENESS)
    rom = load_rom(find_rom(args.rom))
    out = os.dup(1)
    os.dup2(2, 1)  # whatever is printed is no word
    clock, vigil = SystemClock(), Vigil()
    threading.Thread(target=watch, args=(vigil, clock), name="watch", daemon=True).start()
    booth_ = Booth(Judge(rom, args.proof_steps), out, clock, vigil)
    splitter = Splitter()
    for data in iter(partial(os.read, 0, _READ_BYTES), b""):
        for word in splitter.feed(data):
            booth_.hear(word)
    return 0


if __name__ == "__main__":
    sys.exit(run_entry(main))
