"""Pure. Encodes a recording as bytes and decodes it.

The format: a magic, a JSON header, the deflated operations, a digest of the memory after every
256 steps and at the end, a hash over all. Every length is bounded and compared before it is
believed; nothing is executed or unpickled. Damaged or hostile data is a FileError.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from Daddy.core.errors import FileError
from Daddy.pokemon.inputs import emulator_operations
from Daddy.pokemon.inputs.emulator_operations import Operation, OperationKind
from Daddy.pokemon.size_limits import inflate, matching_text

MAGIC: Final = b"DADDYREC"
FORMAT: Final = 1
DIGEST_FRAMES: Final = 6_144
"""A digest is due after the operation with which so many frames passed since the last: 256 steps"""
DIGEST_BYTES: Final = 8
FILE_LIMIT: Final = 8 << 20
OPERATIONS_LIMIT: Final = 4 << 20
"""Bytes of operations: over nineteen days of steps."""
MAX_FRAMES: Final = 1 << 27
MAX_LOADS: Final = 4_096
"""A load lasts no frame, and costs more than any."""
_HEADER_LIMIT = 4_096
_LENGTHS = struct.Struct("<8sHHII")
_HASH_BYTES = 32
_TEXT = re.compile(r"[ -~é]{0,120}")
_SHAPES = {
    **dict.fromkeys(("rom", "pyboy", "start_name", "title"), _TEXT),
    "rom_sha1": re.compile(r"[0-9a-f]{40}"),
    "start": re.compile(r"[0-9a-f]{64}"),
}
"""Forms of a header's texts."""
_MOST_ASSISTS = 32


@dataclass(frozen=True)
class Recording:
    """Operations since `start`, the `ident` of a moment; for power-on see `power_on`.

    `start_name` is the recording person's name of the start state, "" for power-on. `digests`
    are DIGEST_BYTES each, one after another. `assists` names the helps that were in use.
    """

    rom_sha1: str
    rom: str
    pyboy: str
    start: str
    start_name: str = ""
    title: str = ""
    assists: tuple[str, ...] = ()
    operations: bytes = field(default=b"", repr=False)
    digests: bytes = field(default=b"", repr=False)

    @property
    def from_power_on(self) -> bool:
        """True if the game alone suffices to play it."""
        return self.start == power_on_id(self.rom_sha1, self.pyboy)

    @property
    def end_id(self) -> str:
        """The name of the moment that it leads to."""
        return point_id(self.rom_sha1, self.pyboy, self.start, self.operations)


def point_id(rom_sha1: str, pyboy: str, parent: str, done: bytes) -> str:
    """The name of a moment: SHA-256 over game, pyboy, the moment before, what was done since."""
    head = f"daddy-moment-1 {rom_sha1} {pyboy} {parent}\n".encode()
    return hashlib.sha256(head + done).hexdigest()


def power_on_id(rom_sha1: str, pyboy: str) -> str:
    """The name of the first moment of a game."""
    return point_id(rom_sha1, pyboy, "", b"")


def state_id(rom_sha1: str, pyboy: str, state: bytes) -> str:
    """The name of a moment without a known way: it can be gone on from with this state only."""
    return point_id(rom_sha1, pyboy, "state", hashlib.sha256(state).digest())


def memory_digest(memory: bytes | bytearray) -> bytes:
    """The digest of a work RAM."""
    return hashlib.sha256(memory).digest()[:DIGEST_BYTES]


def changes_memory(operation: Operation) -> bool:
    """Return True if it may change the memory: a frame passes, a byte is written, a state loaded.

    Such operations after the last frame need a digest of their own.
    """
    return operation.frames > 0 or operation.kind in (OperationKind.WRITE, OperationKind.LOAD)


def digest_frames(done: Iterable[Operation]) -> Iterator[int]:
    """Frames after which a digest is due, as the operations say; the end's the last."""
    at = last = 0
    due = False
    for operation in done:
        at += operation.frames
        due |= changes_memory(operation)
        if at - last >= DIGEST_FRAMES:
            yield at
            last, due = at, False
    if due:
        yield at


def encode_recording(tape: Recording) -> bytes:
    """One file. Equal recordings have equal bytes."""
    facts = {"assists": list(tape.assists), **{name: getattr(tape, name) for name in _SHAPES}}
    header = json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()
    packed = _deflated(tape.operations)
    lengths = _LENGTHS.pack(MAGIC, FORMAT, len(header), len(packed), len(tape.digests))
    data = lengths + header + packed + tape.digests
    return data + hashlib.sha256(data).digest()


def decode_recording(data: bytes, name: str) -> Recording:
    """The recording in `data`; FileError naming `name` when it cannot be one."""
    try:
        header, packed, digests = _parts(data)
        tape = Recording(
            **_facts(header), operations=inflate(packed, OPERATIONS_LIMIT), digests=digests
        )
        _count(tape)
    except (ValueError, KeyError, TypeError, RecursionError, struct.error, zlib.error) as error:
        raise FileError(
            f"{name} is no recording, or damaged: {error}",
            "get it again from the person who recorded it",
        ) from error
    return tape


def _parts(data: bytes) -> tuple[bytes, bytes, bytes]:
    if len(data) > FILE_LIMIT:
        raise ValueError(f"it has {len(data)} bytes, where {FILE_LIMIT} are possible")
    magic, version, *lengths = _LENGTHS.unpack_from(data)
    if magic != MAGIC:
        raise ValueError(f"it begins with {data[:8]!r}")
    if version != FORMAT:
        raise ValueError(f"its format is {version}, here it is {FORMAT}")
    if len(data) != _LENGTHS.size + sum(lengths) + _HASH_BYTES or lengths[0] > _HEADER_LIMIT:
        raise ValueError(f"{len(data)} bytes are not what its lengths say")
    if hashlib.sha256(data[:-_HASH_BYTES]).digest() != data[-_HASH_BYTES:]:
        raise ValueError("its bytes have another hash than was written")
    first = _LENGTHS.size + lengths[0]
    second = first + lengths[1]
    return data[_LENGTHS.size : first], data[first:second], data[second:-_HASH_BYTES]


def _facts(header: bytes) -> dict[str, Any]:
    told = json.loads(header)
    facts: dict[str, Any] = {
        name: matching_text(told[name], shape) for name, shape in _SHAPES.items()
    }
    if not isinstance(told["assists"], list) or len(told["assists"]) > _MOST_ASSISTS:
        raise TypeError("no list of assists")
    return {**facts, "assists": tuple(matching_text(one, _TEXT) for one in told["assists"])}


def _deflated(plain: bytes) -> bytes:
    """Deflate with few matches, as buttons hardly repeat: saves a sixth of random ones."""
    deflater = zlib.compressobj(9, strategy=zlib.Z_FILTERED)
    return deflater.compress(plain) + deflater.flush()


def _count(tape: Recording) -> None:
    """ValueError unless all operations are valid, in bounds, with the digests they ask for."""
    count = last = 0
    loads = sum(
        one.kind == emulator_operations.OperationKind.LOAD
        for one in emulator_operations.decode_operations(tape.operations)
    )
    if loads > MAX_LOADS:
        raise ValueError(f"it goes back to kept moments {loads} times, {MAX_LOADS} at most")
    for last in digest_frames(emulator_operations.decode_operations(tape.operations)):
        count += 1
        if last > MAX_FRAMES:
            raise ValueError(f"it lasts over {MAX_FRAMES} frames")
    if len(tape.digests) != count * DIGEST_BYTES:
        raise ValueError(f"it has {len(tape.digests)} bytes of digests for {count}")


def frames_before_play(tape: Recording) -> int:
    """Frames until the first kept moment, where the play began; 0 without one."""
    frames = 0
    for operation in emulator_operations.decode_operations(tape.operations):
        if operation.kind == OperationKind.KEEP:
            return frames
        frames += operation.frames
    return 0
