"""Pure: what an emulator tells while it plays becomes a recording.

Owns which states can be come back to: those that were saved while recording. A state from elsewhere
can begin a recording, but ends one that has begun: nobody else could follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from Daddy.pokemon.inputs import operations, tape
from Daddy.pokemon.inputs.tape import DIGEST_FRAMES, Tape

_LONGEST = 4
"""Bytes of the longest operation."""
Memory = Callable[[], bytes | bytearray]


class Listener(Protocol):
    """Whoever is told what is done at an emulator's door."""

    def add(self, operation: bytes, frames: int, memory: Memory) -> None: ...
    def saved(self, state: bytes, memory: Memory) -> None: ...
    def loads(self, state: bytes, memory: Memory) -> None: ...


@dataclass(frozen=True)
class Game:
    """Which game is recorded, with which pyboy."""

    rom_sha1: str
    rom: str
    pyboy: str


class Recorder:
    """One recording as it grows, from power-on, or from the first state that is loaded."""

    def __init__(self, game: Game) -> None:
        self.ended = ""
        """Why nothing more is recorded; "" while it is."""
        self._game = game
        self._start = tape.power_on(game.rom_sha1, game.pyboy)
        self._done = bytearray()
        self._digests = bytearray()
        self._moments: dict[bytes, int] = {}
        self._since = 0
        self._due = False
        self._memory: Memory = bytes

    def add(self, operation: bytes, frames: int, memory: Memory) -> None:
        """An operation was done, and lasted so long; `memory` gives the work RAM after it."""
        if self.ended:
            return
        self._done += operation
        self._memory = memory
        self._since += frames
        self._due |= tape.changes(operations.read(operation, 0))
        if self._since >= DIGEST_FRAMES:
            self._digests += tape.digest(memory())
            self._since, self._due = 0, False
        if len(self._done) > tape.OPERATIONS_LIMIT - _LONGEST:
            self._end(f"it has {len(self._done)} bytes of operations", memory)

    def _end(self, reason: str, memory: Memory) -> None:
        """Record nothing more; the memory is still that of the last operation."""
        self.ended, image = reason, bytes(memory())
        self._memory = lambda: image

    def saved(self, state: bytes, memory: Memory) -> None:
        """A state was saved: it can be loaded again."""
        key = sha256(state).digest()
        if key not in self._moments and len(self._moments) < operations.MOST_MOMENTS:
            self._moments[key] = len(self._moments)
            self.add(operations.KEEP, 0, memory)

    def loads(self, state: bytes, memory: Memory) -> None:
        """A state will be loaded: one that was saved, the one to begin with, or the end."""
        moment = self._moments.get(sha256(state).digest())
        if moment is not None:
            self.add(operations.load(moment), 0, memory)
        elif not self._done:
            self._start = tape.of_state(self._game.rom_sha1, self._game.pyboy, state)
            self.saved(state, memory)
        elif not self.ended:
            self._end("a state of another game is loaded", memory)

    def tape(self, title: str = "", start_name: str = "", assists: Sequence[str] = ()) -> Tape:
        """The recording so far. Where it has not ended, ask before the emulator plays on."""
        last = tape.digest(self._memory()) if self._due else b""
        game = self._game
        return Tape(
            rom_sha1=game.rom_sha1,
            rom=game.rom,
            pyboy=game.pyboy,
            start=self._start,
            start_name=start_name,
            title=title,
            assists=tuple(assists),
            operations=bytes(self._done),
            digests=bytes(self._digests) + last,
        )
