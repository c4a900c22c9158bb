"""An emulator that verifies: it plays each stretch as fast as it can and compares the digest."""

from __future__ import annotations

import zlib

from Daddy.core.rom import Rom
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.inputs import operations, tape
from Daddy.pokemon.inputs.stretch import Stretch
from Daddy.pokemon.ram_map import WHOLE
from Daddy.pokemon.recordings.hand import do


class Scout:
    """One emulator, that goes from chain to chain."""

    def __init__(self, rom: Rom) -> None:
        self._emulator = Emulator(rom.data)
        self._at: tuple[int, int] | None = None

    def follow(self, chain: int, index: int, stretch: Stretch, place: bytes) -> bytes | None:
        """The state after a stretch that begins at `place` (both deflated).

        None where the game goes another way than was told.
        """
        if self._at != (chain, index):
            self._emulator.load_state(zlib.decompress(place))
        for one in operations.each(stretch.operations):
            do(self._emulator, one)
        if tape.digest(self._emulator.ram(WHOLE)) != stretch.digest:
            self._at = None
            return None
        self._at = (chain, index + 1)
        return zlib.compress(self._emulator.save_state(), 1)

    def close(self) -> None:
        """End the emulator."""
        self._emulator.close()
