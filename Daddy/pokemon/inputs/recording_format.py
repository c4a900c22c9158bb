"""Pure. Encodes a recording as bytes and decodes it.

The format: a magic, a JSON header, the deflated operations, a digest of the memory after every
256 steps and at the end, a hash of all that. Decoding checks every length against limits, and
executes and unpickles nothing. Damaged or invalid data is a FileError.
"""

import hashlib
import json
import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from Daddy.core.errors import FileError
from Daddy.pokemon.bounded_decoding import inflate, matching_text
from Daddy.pokemon.inputs import emulator_operations
from Daddy.pokemon.inputs.emulator_operations import Operation, OperationKind

MAGIC: Final = b"DADDYREC"
FORMAT: Final = 1
DIGEST_FRAMES: Final = 6_144
"""Frames, those of 256 steps, after which the next operation is followed by a digest."""
DIGEST_BYTES: Final = 8
FILE_LIMIT: Final = 8 << 20
OPERATIONS_LIMIT: Final = 4 << 20
"""Largest number of bytes of operations: over nineteen days of steps."""
MAX_FRAMES: Final = 1 << 27
MAX_LOADS: Final = 4_096
"""Limit of its own for loads, which last no frame but take more time than many frames."""
_HEADER_LIMIT = 4_096
_LENGTHS = struct.Struct("<8sHHII")
_HASH_BYTES = 32
_TEXT = re.compile(r"[ -~é]{0,120}")
_SHAPES = {
    **dict.fromkeys(("rom", "pyboy", "start_name", "title"), _TEXT),
    "rom_sha1": re.compile(r"[0-9a-f]{40}"),
    "start": re.compile(r"[0-9a-f]{64}"),
}
"""Patterns that the header's texts must match."""
_MAX_ASSISTS = 32


@dataclass(frozen=True)
class Recording:
    """Holds the operations since `start`, which is `power_on_id` or a `state_id`.

    `start_name`: the start state's name on the recording machine, "" for power-on. `digests`:
    DIGEST_BYTES each, concatenated. `assists`: names of the assists that were in use.
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
        """True if the recording begins at power-on, so that playing it needs the game only."""
        return self.start == power_on_id(self.rom_sha1, self.pyboy)

    @property
    def end_id(self) -> str:
        """The id of the point of the game at the recording's end."""
        return point_id(self.rom_sha1, self.pyboy, self.start, self.operations)


def point_id(rom_sha1: str, pyboy: str, parent: str, operations: bytes) -> str:
    """Return a point's id in a game: SHA-256 of game, pyboy, parent's id and operations since."""
    head = f"daddy-moment-1 {rom_sha1} {pyboy} {parent}\n".encode()
    return hashlib.sha256(head + operations).hexdigest()


def power_on_id(rom_sha1: str, pyboy: str) -> str:
    """Return the id of a game at power-on."""
    return point_id(rom_sha1, pyboy, "", b"")


def state_id(rom_sha1: str, pyboy: str, state: bytes) -> str:
    """Return the id of a state whose operations since power-on are unknown."""
    return point_id(rom_sha1, pyboy, "state", hashlib.sha256(state).digest())


def memory_digest(memory: bytes | bytearray) -> bytes:
    """Return the digest of the work RAM, DIGEST_BYTES long."""
    return hashlib.sha256(memory).digest()[:DIGEST_BYTES]


def changes_memory(operation: Operation) -> bool:
    """Return True if a digest is due after an operation: it plays frames, writes or loads."""
    return operation.frames > 0 or operation.kind in (OperationKind.WRITE, OperationKind.LOAD)


def digest_frames(operations: Iterable[Operation]) -> Iterator[int]:
    """Yield the frame numbers after which a digest follows, the last frame included."""
    frames = last = 0
    due = False
    for operation in operations:
        frames += operation.frames
        due |= changes_memory(operation)
        if frames - last >= DIGEST_FRAMES:
            yield frames
            last, due = frames, False
    if due:
        yield frames


def encode_recording(recording: Recording) -> bytes:
    """Encode a recording as one file; equal recordings have equal bytes."""
    facts = {
        "assists": list(recording.assists),
        **{name: getattr(recording, name) for name in _SHAPES},
    }
    header = json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()
    packed = _deflated(recording.operations)
    lengths = _LENGTHS.pack(MAGIC, FORMAT, len(header), len(packed), len(recording.digests))
    data = lengths + header + packed + recording.digests
    return data + hashlib.sha256(data).digest()


def decode_recording(data: bytes, name: str) -> Recording:
    """Decode a recording; FileError naming `name` when `data` is damaged or invalid."""
    try:
        header, packed, digests = _parts(data)
        operations = inflate(packed, OPERATIONS_LIMIT)
        recording = Recording(**_facts(header), operations=operations, digests=digests)
        _check_counts(recording)
    except (ValueError, KeyError, TypeError, RecursionError, struct.error, zlib.error) as error:
        raise FileError(
            f"{name} is not a recording, or damaged: {error}",
            "get it again from the person who recorded it",
        ) from error
    return recording


def _parts(data: bytes) -> tuple[bytes, bytes, bytes]:
    if len(data) > FILE_LIMIT:
        raise ValueError(f"the file has {len(data)} bytes, the limit is {FILE_LIMIT}")
    magic, version, *lengths = _LENGTHS.unpack_from(data)
    if magic != MAGIC:
        raise ValueError(f"the file begins with {data[:8]!r}")
    if version != FORMAT:
        raise ValueError(f"its format is {version}, here it is {FORMAT}")
    if len(data) != _LENGTHS.size + sum(lengths) + _HASH_BYTES or lengths[0] > _HEADER_LIMIT:
        raise ValueError(f"the file's {len(data)} bytes do not match its lengths")
    if hashlib.sha256(data[:-_HASH_BYTES]).digest() != data[-_HASH_BYTES:]:
        raise ValueError("the file's bytes do not match its SHA-256")
    first = _LENGTHS.size + lengths[0]
    second = first + lengths[1]
    return data[_LENGTHS.size : first], data[first:second], data[second:-_HASH_BYTES]


def _facts(header: bytes) -> dict[str, Any]:
    parsed = json.loads(header)
    facts: dict[str, Any] = {
        name: matching_text(parsed[name], shape) for name, shape in _SHAPES.items()
    }
    if not isinstance(parsed["assists"], list) or len(parsed["assists"]) > _MAX_ASSISTS:
        raise TypeError("no list of assists")
    return {**facts, "assists": tuple(matching_text(name, _TEXT) for name in parsed["assists"])}


def _deflated(plain: bytes) -> bytes:
    """Deflate operations with few string matches, as sequences of buttons hardly repeat."""
    deflater = zlib.compressobj(9, strategy=zlib.Z_FILTERED)
    return deflater.compress(plain) + deflater.flush()


def _check_counts(recording: Recording) -> None:
    """Raise ValueError unless all operations are valid and within limits, with all digests."""
    count = last = 0
    loads = sum(
        operation.kind == OperationKind.LOAD
        for operation in emulator_operations.decode_operations(recording.operations)
    )
    if loads > MAX_LOADS:
        raise ValueError(f"the recording loads states {loads} times, {MAX_LOADS} at most")
    for last in digest_frames(emulator_operations.decode_operations(recording.operations)):
        count += 1
        if last > MAX_FRAMES:
            raise ValueError(f"the recording lasts over {MAX_FRAMES} frames")
    if len(recording.digests) != count * DIGEST_BYTES:
        raise ValueError(f"the file has {len(recording.digests)} bytes of digests for {count}")


def frames_before_play(recording: Recording) -> int:
    """Count the frames before the first saved state, the start of play; 0 without one."""
    frames = 0
    for operation in emulator_operations.decode_operations(recording.operations):
        if operation.kind == OperationKind.KEEP:
            return frames
        frames += operation.frames
    return 0
