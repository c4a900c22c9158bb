"""Pure: a piece of an agent's play on its way from a learner's emulator to a viewer's.

Owns the tag: which chain of pieces, and which of it. A chain begins with piece 0, which says what
it begins at; the rest follow without a gap. What is in a piece is the game's business.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

_HEAD = struct.Struct("<II")
BEGINNING_BYTES: Final = 480
"""Of what piece 0 says."""
PIECE_BYTES: Final = 2_560
"""Of a whole piece, its tag among them."""


@dataclass(frozen=True, slots=True)
class Piece:
    """`data` is piece `index` of the chain of that number; numbers grow with every chain."""

    chain: int
    index: int
    data: bytes

    def pack(self) -> bytes:
        """Its bytes; ValueError when they are too many (our own mistake)."""
        packed = _HEAD.pack(self.chain, self.index) + self.data
        if len(packed) > PIECE_BYTES or (not self.index and len(self.data) > BEGINNING_BYTES):
            raise ValueError(f"a piece of {len(packed)} bytes")
        return packed


def read_piece(packed: bytes) -> Piece:
    """The piece; ValueError when it cannot be one."""
    if not _HEAD.size <= len(packed) <= PIECE_BYTES:
        raise ValueError(f"a piece of {len(packed)} bytes")
    chain, index = _HEAD.unpack_from(packed)
    if not index and len(packed) > _HEAD.size + BEGINNING_BYTES:
        raise ValueError(f"a beginning of {len(packed)} bytes")
    return Piece(chain, index, packed[_HEAD.size :])
