"""An emulator that verifies: it plays each stretch as fast as it can and compares the digest."""

from __future__ import annotations

import threading
import zlib

from Daddy.core.rom import Rom
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.inputs import operations, tape
from Daddy.pokemon.inputs.stretch import Stretch
from Daddy.pokemon.live.vigil import Vigil
from Daddy.pokemon.ram_map import WHOLE
from Daddy.pokemon.recordings.hand import do


class Scout:
    """One emulator, that goes from chain to chain until `stop` is set."""

    def __init__(self, rom: Rom, vigil: Vigil, stop: threading.Event) -> None:
        self._emulator = Emulator(rom.data)
        self._vigil, self._pulse, self._stop = vigil, vigil.begin(), stop
        self._at: tuple[int, int] | None = None

    def follow(self, chain: int, index: int, stretch: Stretch, place: bytes) -> bytes | None:
        """The state after a stretch that begins at `place` (both deflated).

        None where the game goes another way than was told, or `stop` is set.
        """
        if self._at != (chain, index):
            self._emulator.load_state(zlib.decompress(place))
        self._at = None
        for one in operations.each(stretch.operations):
            if self._stop.is_set():
                return None
            with self._pulse.playing():
                do(self._emulator, one)
        if tape.digest(self._emulator.ram(WHOLE)) != stretch.digest:
            return None
        self._at = (chain, index + 1)
        return zlib.compress(self._emulator.save_state(), 1)

    def close(self) -> None:
        """End the emulator."""
        self._emulator.close()
        self._vigil.end(self._pulse)
