"""Pure: what an emulator tells while somebody watches becomes pieces, as they come about.

Owns where chains begin: at every state that is loaded. One that begins at the start state has a
name that a viewer can make; one from elsewhere (an archive) has the name of its bytes, which only
who has them can. Nothing waits for anybody: of pieces that nobody takes the oldest are dropped, and
the gap shows in the numbers.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from Daddy.core.piece import Piece
from Daddy.pokemon.inputs import operations, stretch, tape
from Daddy.pokemon.inputs.recorder import Memory
from Daddy.pokemon.inputs.stretch import STRETCH_BYTES, Beginning
from Daddy.pokemon.inputs.tape import DIGEST_FRAMES

_LONGEST = 4
"""Bytes of the longest operation."""
_WAITING = 16
"""Pieces that wait to be taken."""


class LiveRecorder:
    """The play of one emulator, from the next state that it loads on."""

    def __init__(self, start: bytes, at: Beginning) -> None:
        """`start` is the state that the beginning `at` names."""
        self._start, self._at = start, at
        self._begins: Beginning | None = None
        self._chain = self._index = 0
        self._done, self._since = bytearray(), 0
        self._played = False
        self._pieces: deque[bytes] = deque(maxlen=_WAITING)

    def take(self) -> bytes:
        """The oldest piece that nobody took yet; empty when there is none."""
        return self._pieces.popleft() if self._pieces else b""

    def forget(self) -> None:
        """Nobody wants it any more; who asks again gets the next chain."""
        self._begins = None
        self._done.clear()
        self._pieces.clear()

    def add(self, operation: bytes, frames: int, memory: Memory) -> None:
        """An operation was done, and lasted so long; `memory` gives the work RAM after it."""
        if self._begins is None:
            return
        self._done += operation
        self._since += frames
        self._played = self._played or operation[0] <= operations.Kind.IDLE
        if self._since >= DIGEST_FRAMES or len(self._done) > STRETCH_BYTES - _LONGEST:
            self._close(memory)

    def saved(self, state: bytes, memory: Memory) -> None:
        """A state was saved: the play goes on."""

    def loads(self, state: bytes, memory: Memory) -> None:
        """A state will be loaded: what was played is a piece, and another chain begins."""
        if self._done and self._played:
            self._close(memory)
        self._done.clear()
        self._since, self._played = 0, False
        self._chain, self._index = self._chain + 1, 0
        if state == self._start:
            self._begins = self._at
        else:
            moment = tape.of_state(self._at.rom_sha1, self._at.pyboy, state)
            self._begins = replace(self._at, moment=moment, start="")

    def _close(self, memory: Memory) -> None:
        """One stretch; before a chain's first, what it begins at."""
        assert self._begins is not None
        if not self._index:
            self._pieces.append(Piece(self._chain, 0, self._begins.pack()).pack())
        self._index += 1
        data = stretch.pack(bytes(self._done), tape.digest(memory()))
        self._pieces.append(Piece(self._chain, self._index, data).pack())
        self._done.clear()
        self._since = 0
