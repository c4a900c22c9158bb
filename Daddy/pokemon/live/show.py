"""An emulator that plays what is verified, every frame of it, at the game's own speed.

Promises that what is seen is what was verified: the digest is compared once more at the end of each
stretch, whichever way led there.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable

from Daddy.core.booth import Shown
from Daddy.core.clock import Clock
from Daddy.core.rom import Rom
from Daddy.pokemon.emulator import FRAMES_PER_SECOND, Emulator
from Daddy.pokemon.inputs import operations, tape
from Daddy.pokemon.inputs.operations import Operation
from Daddy.pokemon.inputs.stretch import Stretch
from Daddy.pokemon.live.chain import Passage
from Daddy.pokemon.live.vigil import Vigil
from Daddy.pokemon.ram_map import WHOLE
from Daddy.pokemon.recordings.hand import do


class Show:
    """Plays stretch by stretch; each frame goes to `shown` when it is due.

    Knows nothing of chains that change meanwhile: a passage is a value.
    """

    def __init__(
        self,
        rom: Rom,
        shown: Callable[[Shown], None],
        clock: Clock,
        stop: threading.Event,
        vigil: Vigil,
    ) -> None:
        self._emulator = Emulator(rom.data)
        self._emulator.film_frames = 1
        self._shown, self._clock, self._stop = shown, clock, stop
        self._vigil, self._pulse = vigil, vigil.begin()
        self._at: tuple[int, int] | None = None
        self.frames, self._captured_s = 0, 0.0
        """Of the chain, as far as it was played, or is about to be."""
        self._due = clock.monotonic()

    def play(self, passage: Passage, stop: Callable[[], bool]) -> bool:
        """Show a passage; what comes before its first frame is played unseen.

        Ends early when `stop` says so. False when the game went another way than was verified.
        """
        here, self._at = self._at, None
        if here != (passage.chain, passage.index) and not self._go(passage, stop):
            return True
        self._chain, self._captured_s = passage.chain, passage.captured_s
        self._due = max(self._due, self._clock.monotonic())
        if not self._all(passage.stretch, passage.first, stop):
            return True
        if tape.digest(self._emulator.ram(WHOLE)) != passage.stretch.digest:
            return False
        self._at = (passage.chain, passage.index + 1)
        return True

    def _go(self, passage: Passage, stop: Callable[[], bool]) -> bool:
        """To the beginning of its stretch, unseen; whether it came there."""
        self.frames = max(passage.frames, passage.first)
        self._emulator.load_state(zlib.decompress(passage.place))
        for stretch in passage.before:
            for one in operations.each(stretch.operations):
                if self._stop.is_set() or stop():
                    return False
                self._unseen(one)
        self.frames = passage.frames
        return True

    def _all(self, stretch: Stretch, first: int, stop: Callable[[], bool]) -> bool:
        """The whole stretch, seen from frame `first` of the chain on; whether it came to its end"""
        for one in operations.each(stretch.operations):
            if self._stop.is_set() or stop():
                return False
            if self.frames < first:
                self._unseen(one)
                self.frames += one.frames
                continue
            self._emulator.watcher = self._frame
            with self._pulse.playing():
                do(self._emulator, one)
        return True

    def _unseen(self, one: Operation) -> None:
        self._emulator.watcher = None
        with self._pulse.playing():
            do(self._emulator, one)

    def _frame(self) -> None:
        """Whoever shows a frame is no emulator that hangs, however long that takes."""
        self._pulse.rest()
        self.frames += 1
        picture = self._emulator.picture()
        self._shown(Shown(self._chain, self.frames, self._captured_s, picture))
        self._due = max(self._due + 1 / FRAMES_PER_SECOND, self._clock.monotonic() - 0.1)
        self._clock.wait(self._stop, max(0.0, self._due - self._clock.monotonic()))
        self._pulse.begin()

    def close(self) -> None:
        """End the emulator."""
        self._emulator.close()
        self._vigil.end(self._pulse)
