"""An emulator that plays what is verified, every frame of it, at the game's own speed."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable

from Daddy.core.booth import Shown
from Daddy.core.clock import Clock
from Daddy.core.rom import Rom
from Daddy.pokemon.emulator import FRAMES_PER_SECOND, Emulator
from Daddy.pokemon.inputs import operations
from Daddy.pokemon.inputs.operations import Operation
from Daddy.pokemon.live.chain import Chain
from Daddy.pokemon.recordings.hand import do


class Show:
    """Plays stretch by stretch; each frame goes to `shown` when it is due."""

    def __init__(
        self, rom: Rom, shown: Callable[[Shown], None], clock: Clock, stop: threading.Event
    ) -> None:
        self._emulator = Emulator(rom.data)
        self._emulator.film_frames = 1
        self._shown, self._clock, self._stop = shown, clock, stop
        self._at: tuple[int, int] | None = None
        self.frames, self._captured_s = 0, 0.0
        """Of the chain, as far as it was played."""
        self._due = clock.monotonic()

    def play(self, chain: Chain, index: int, first: int, stop: Callable[[], bool]) -> None:
        """A verified stretch of a chain, its frames from `first` on (of the chain).

        What comes before is played unseen. Ends early when `stop` says so.
        """
        if self._at != (chain.number, index):
            self._go(chain, index)
        self._at, self._captured_s = None, chain.captured[index]
        self._chain = chain.number
        self._due = max(self._due, self._clock.monotonic())
        for one in operations.each(chain.stretches[index].operations):
            if self._stop.is_set() or stop():
                return
            if self.frames < first:
                self._skip(one)
            else:
                self._emulator.watcher = self._frame
                do(self._emulator, one)
        self._at = (chain.number, index + 1)

    def _skip(self, one: Operation) -> None:
        self._emulator.watcher = None
        do(self._emulator, one)
        self.frames += one.frames

    def _go(self, chain: Chain, index: int) -> None:
        """To the beginning of a stretch, unseen."""
        self._emulator.watcher = None
        first = chain.place_before(index)
        self._emulator.load_state(zlib.decompress(chain.places[first]))
        for stretch in chain.stretches[first:index]:
            for one in operations.each(stretch.operations):
                do(self._emulator, one)
        self.frames = chain.frames_before(index)

    def _frame(self) -> None:
        self.frames += 1
        picture = self._emulator.picture()
        self._shown(Shown(self._chain, self.frames, self._captured_s, picture))
        self._due = max(self._due + 1 / FRAMES_PER_SECOND, self._clock.monotonic() - 0.1)
        self._clock.wait(self._stop, max(0.0, self._due - self._clock.monotonic()))

    def close(self) -> None:
        """End the emulator."""
        self._emulator.close()
