"""Pure. Turns the operations of a playing emulator into a recording.

A recording can go back to states that were saved while it was made. A state from elsewhere can
begin a recording, but ends one that has begun: it could not be played again without that state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

from Daddy.pokemon.inputs import emulator_operations, recording_format
from Daddy.pokemon.inputs.recording_format import DIGEST_FRAMES, Recording

_LONGEST = 4
"""Bytes of the longest operation."""
ReadMemory = Callable[[], bytes | bytearray]


class InputRecorder:
    """One recording as it grows, from power-on, or from the first state that is loaded."""

    def __init__(self, rom_sha1: str, rom: str, pyboy: str) -> None:
        """`rom` is the game's name."""
        self.ended = ""
        """Reason why nothing more is recorded; "" while it is."""
        self._rom_sha1, self._rom, self._pyboy = rom_sha1, rom, pyboy
        self._start = recording_format.power_on_id(rom_sha1, pyboy)
        self._done = bytearray()
        self._digests = bytearray()
        self._moments: dict[bytes, int] = {}
        self._since = 0
        self._due = False
        self._memory: ReadMemory = bytes

    def record_operation(self, operation: bytes, frames: int, memory: ReadMemory) -> None:
        """Note an operation of so many frames; `memory` gives the work RAM after it."""
        if self.ended:
            return
        self._done += operation
        self._memory = memory
        self._since += frames
        self._due |= recording_format.changes_memory(
            emulator_operations.decode_operation(operation, 0)
        )
        if self._since >= DIGEST_FRAMES:
            self._digests += recording_format.memory_digest(memory())
            self._since, self._due = 0, False
        if len(self._done) > recording_format.OPERATIONS_LIMIT - _LONGEST:
            self._end(f"it has {len(self._done)} bytes of operations", memory)

    def _end(self, reason: str, memory: ReadMemory) -> None:
        """Record nothing more; the memory is still that of the last operation."""
        self.ended, image = reason, bytes(memory())
        self._memory = lambda: image

    def record_save(self, state: bytes, memory: ReadMemory) -> None:
        """Note a saved state: it can be loaded again."""
        key = sha256(state).digest()
        if key not in self._moments and len(self._moments) < emulator_operations.MAX_SAVED_STATES:
            self._moments[key] = len(self._moments)
            self.record_operation(emulator_operations.KEEP, 0, memory)

    def record_load(self, state: bytes, memory: ReadMemory) -> None:
        """Note a state to be loaded: one that was saved, the one to begin with, or the end."""
        moment = self._moments.get(sha256(state).digest())
        if moment is not None:
            self.record_operation(emulator_operations.encode_load(moment), 0, memory)
        elif not self._done:
            self._start = recording_format.state_id(self._rom_sha1, self._pyboy, state)
            self.record_save(state, memory)
        elif not self.ended:
            self._end("a state of another game is loaded", memory)

    def make_recording(
        self, title: str = "", start_name: str = "", assists: Sequence[str] = ()
    ) -> Recording:
        """The recording so far. Where it has not ended, ask before the emulator plays on."""
        last = recording_format.memory_digest(self._memory()) if self._due else b""
        return Recording(
            rom_sha1=self._rom_sha1,
            rom=self._rom,
            pyboy=self._pyboy,
            start=self._start,
            start_name=start_name,
            title=title,
            assists=tuple(assists),
            operations=bytes(self._done),
            digests=bytes(self._digests) + last,
        )
