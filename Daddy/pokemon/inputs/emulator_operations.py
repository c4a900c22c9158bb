"""Pure. Encodes every operation at an emulator as bytes.

A step (a key of seven, or none) is one byte; everything else is
rare. Decoding bounds all that an operation asks for: frames, kept moments, addresses.
"""

from __future__ import annotations

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
"""Moments that a recording may keep to come back to."""
_BUTTONS = 7
_WRITABLE = (*ram.WHOLE, (0xFF80, 0xFFFF))
"""Work RAM and high RAM: the game's memory, and nothing that turns parts of the console off."""


class OperationKind(IntEnum):
    """The first byte; 0 to 6 are the buttons of a step."""

    IDLE = 7
    WAIT = 8
    HOLD = 9
    WRITE = 10
    KEEP = 11
    LOAD = 12


_FIELDS = {
    OperationKind.WAIT: struct.Struct("<xH"),
    OperationKind.HOLD: struct.Struct("<xBH"),
    OperationKind.WRITE: struct.Struct("<xHB"),
    OperationKind.LOAD: struct.Struct("<xB"),
}
IDLE: Final = bytes([OperationKind.IDLE])
KEEP: Final = bytes([OperationKind.KEEP])


class Operation(NamedTuple):
    """One operation. `kind` is a Kind, or 0 to 6: a step with that button.

    `first` and `second`: WAIT frames · HOLD buttons as bits, frames · WRITE address, value · LOAD
    the number of a kept moment. `frames` is how long it lasts, `end` where the next one begins.
    """

    kind: int
    first: int
    second: int
    frames: int
    end: int


def encode_press(button: int) -> bytes:
    """A step with button 0 to 6."""
    return bytes([button])


def encode_wait(frames: int) -> bytes:
    """Frames with no change of keys."""
    return bytes([OperationKind.WAIT]) + struct.pack("<H", frames)


def encode_hold(buttons: int, frames: int) -> bytes:
    """Frames with exactly the buttons of these bits down."""
    return bytes([OperationKind.HOLD]) + struct.pack("<BH", buttons, frames)


def encode_write(address: int, value: int) -> bytes:
    """A byte written into the game's memory."""
    return bytes([OperationKind.WRITE]) + struct.pack("<HB", address, value)


def encode_load(moment: int) -> bytes:
    """Back to a kept moment."""
    return bytes([OperationKind.LOAD, moment])


def decode_operation(data: bytes, at: int) -> Operation:
    """The operation that begins at `at`; ValueError where there is none within the bounds."""
    kind = data[at]
    if kind <= OperationKind.IDLE or kind == OperationKind.KEEP:
        return Operation(kind, 0, 0, STEP_FRAMES if kind <= OperationKind.IDLE else 0, at + 1)
    if kind > OperationKind.LOAD:
        raise ValueError(f"there is no operation {kind}")
    fields = _FIELDS[OperationKind(kind)]
    if at + fields.size > len(data):
        raise ValueError("the last operation is torn")
    first, second = (*fields.unpack_from(data, at), 0)[:2]
    frames = {OperationKind.WAIT: first, OperationKind.HOLD: second}.get(OperationKind(kind))
    if frames is not None and not 1 <= frames <= MAX_FRAMES:
        raise ValueError(f"an operation of {frames} frames")
    if kind == OperationKind.HOLD and first >> _BUTTONS:
        raise ValueError(f"buttons {first:#x}")
    if kind == OperationKind.WRITE and not any(a <= first < b for a, b in _WRITABLE):
        raise ValueError(f"a byte is written to {first:#06x}")
    return Operation(kind, first, second, frames or 0, at + fields.size)


def decode_operations(data: bytes) -> Iterator[Operation]:
    """All operations; ValueError at the first that is none, or goes back to what was not kept."""
    at = kept = 0
    while at < len(data):
        found = decode_operation(data, at)
        kept += found.kind == OperationKind.KEEP
        if kept > MAX_SAVED_STATES:
            raise ValueError(f"more than {MAX_SAVED_STATES} moments are kept")
        if found.kind == OperationKind.LOAD and found.first >= kept:
            raise ValueError(f"moment {found.first} was never kept")
        at = found.end
        yield found
