"""Pure. Turns the operations of a running emulator into a recording.

A recording can load states that were saved while it was made. Another state may be loaded before
the first operation only; later, loading it ends the recording, which would need that state to play.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256

from Daddy.pokemon.inputs import emulator_operations, recording_format
from Daddy.pokemon.inputs.emulator_operations import OperationKind
from Daddy.pokemon.inputs.recording_format import DIGEST_FRAMES, Recording

_LONGEST = 4
"""Bytes of the longest operation."""
ReadMemory = Callable[[], bytes | bytearray]


class InputRecorder:
    """Records the operations of one emulator, from power-on or from the first state loaded."""

    def __init__(self, rom_sha1: str, rom: str, pyboy: str) -> None:
        """Begin a recording at power-on; `rom` is the game's name."""
        self.ended = ""
        """Reason for which the recording ended; "" while it continues."""
        self._rom_sha1, self._rom, self._pyboy = rom_sha1, rom, pyboy
        self._start = recording_format.power_on_id(rom_sha1, pyboy)
        self._operations = bytearray()
        self._digests = bytearray()
        self._saved_states: dict[bytes, int] = {}
        self._frames_since_digest = 0
        self._digest_due = False
        self._read_memory: ReadMemory = bytes

    def record_operation(self, operation: bytes, frames: int, read_memory: ReadMemory) -> None:
        """Record an operation of `frames` frames; `read_memory` returns the work RAM after it."""
        if self.ended:
            return
        self._operations += operation
        self._read_memory = read_memory
        self._frames_since_digest += frames
        decoded = emulator_operations.decode_operation(operation, 0)
        self._digest_due |= recording_format.changes_memory(decoded)
        if self._frames_since_digest >= DIGEST_FRAMES:
            self._digests += recording_format.memory_digest(read_memory())
            self._frames_since_digest, self._digest_due = 0, False
        if len(self._operations) > recording_format.OPERATIONS_LIMIT - _LONGEST:
            self._end(f"it has {len(self._operations)} bytes of operations", read_memory)

    def _end(self, reason: str, read_memory: ReadMemory) -> None:
        """End the recording with the memory after its last operation."""
        self.ended, image = reason, bytes(read_memory())
        self._read_memory = lambda: image

    def record_save(self, state: bytes, read_memory: ReadMemory) -> None:
        """Record the saving of a state, which can be loaded later; at most 64 are recorded."""
        key = sha256(state).digest()
        full = len(self._saved_states) >= emulator_operations.MAX_SAVED_STATES
        if key not in self._saved_states and not full:
            self._saved_states[key] = len(self._saved_states)
            self.record_operation(emulator_operations.KEEP, 0, read_memory)

    def record_load(self, state: bytes, read_memory: ReadMemory) -> None:
        """Record the loading of a saved state or a first state; any other ends the recording."""
        number = self._saved_states.get(sha256(state).digest())
        if number is not None:
            self.record_operation(
                emulator_operations.encode_operation(OperationKind.LOAD, number), 0, read_memory
            )
        elif not self._operations:
            self._start = recording_format.state_id(self._rom_sha1, self._pyboy, state)
            self.record_save(state, read_memory)
        elif not self.ended:
            self._end("a state that the recording has not saved is loaded", read_memory)

    def make_recording(
        self, title: str = "", start_name: str = "", assists: Sequence[str] = ()
    ) -> Recording:
        """Make the recording of all operations so far; call it before the emulator plays on."""
        last = recording_format.memory_digest(self._read_memory()) if self._digest_due else b""
        return Recording(
            rom_sha1=self._rom_sha1,
            rom=self._rom,
            pyboy=self._pyboy,
            start=self._start,
            start_name=start_name,
            title=title,
            assists=tuple(assists),
            operations=bytes(self._operations),
            digests=bytes(self._digests) + last,
        )
