"""Pure. Encodes every operation on an emulator as bytes and decodes it.

A step (one of seven keys, or none) is one byte; all other operations are rare. Decoding limits the
frames of an operation, the number of saved states, and the addresses that may be written.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from Daddy.pokemon import ram_map as ram

STEP_FRAMES: Final = 24
"""Frames of a step: `emulator.FRAMES_PER_STEP`."""
MAX_FRAMES: Final = 6_144
"""Frames that one operation may last: 256 steps."""
MAX_SAVED_STATES: Final = 64
"""States that a recording may save, in order to load them later."""
_BUTTONS = 7
_WRITABLE = (*ram.WHOLE, (0xFF80, 0xFFFF))
"""Addresses that may be written: work RAM and high RAM, and no register of the hardware."""


class OperationKind(IntEnum):
    """Lists the first bytes of operations; 0 to 6 are steps with that button."""

    IDLE = 7
    WAIT = 8
    HOLD = 9
    WRITE = 10
    KEEP = 11
    LOAD = 12


_FIELDS = {
    OperationKind.WAIT: struct.Struct("<BH"),
    OperationKind.HOLD: struct.Struct("<BBH"),
    OperationKind.WRITE: struct.Struct("<BHB"),
    OperationKind.LOAD: struct.Struct("<BB"),
}
IDLE: Final = bytes([OperationKind.IDLE])
KEEP: Final = bytes([OperationKind.KEEP])


class Operation(NamedTuple):
    """Holds one operation. `kind` is an OperationKind, or 0 to 6: a step with that button.

    `first` and `second`: WAIT frames · HOLD buttons as bits, frames · WRITE address, value · LOAD
    the number of a saved state. `frames`: its duration; `end`: the offset of the next operation.
    """

    kind: int
    first: int
    second: int
    frames: int
    end: int


def encode_operation(kind: OperationKind, *fields: int) -> bytes:
    """Encode an operation with the fields `first` and `second` of its `Operation`."""
    return _FIELDS[kind].pack(kind, *fields)


def decode_operation(data: bytes, offset: int) -> Operation:
    """Decode the operation that begins at `offset`; ValueError if it is invalid."""
    kind = data[offset]
    if kind <= OperationKind.IDLE or kind == OperationKind.KEEP:
        return Operation(kind, 0, 0, STEP_FRAMES if kind <= OperationKind.IDLE else 0, offset + 1)
    if kind > OperationKind.LOAD:
        raise ValueError(f"there is no operation {kind}")
    fields = _FIELDS[OperationKind(kind)]
    if offset + fields.size > len(data):
        raise ValueError("the last operation is cut off")
    _, first, second = (*fields.unpack_from(data, offset), 0)[:3]
    frames = {OperationKind.WAIT: first, OperationKind.HOLD: second}.get(OperationKind(kind))
    if frames is not None and not 1 <= frames <= MAX_FRAMES:
        raise ValueError(f"an operation of {frames} frames")
    if kind == OperationKind.HOLD and first >> _BUTTONS:
        raise ValueError(f"buttons {first:#x}")
    if kind == OperationKind.WRITE and not any(a <= first < b for a, b in _WRITABLE):
        raise ValueError(f"a byte is written to {first:#06x}")
    return Operation(kind, first, second, frames or 0, offset + fields.size)


def decode_operations(data: bytes) -> Iterator[Operation]:
    """Decode all operations; ValueError if an operation is invalid or loads a state never saved."""
    offset = saved = 0
    while offset < len(data):
        operation = decode_operation(data, offset)
        saved += operation.kind == OperationKind.KEEP
        if saved > MAX_SAVED_STATES:
            raise ValueError(f"more than {MAX_SAVED_STATES} states are saved")
        if operation.kind == OperationKind.LOAD and operation.first >= saved:
            raise ValueError(f"state {operation.first} was never saved")
        offset = operation.end
        yield operation
