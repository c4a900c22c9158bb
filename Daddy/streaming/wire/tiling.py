"""Pure: a picture as the tiles that earlier pictures have already shown, and where each stands.

The game draws from a small stock of tiles. A delta is therefore 360 numbers, one a place, into a
table of the tiles that its bases show, then the bytes of those tiles that no base shows, all of it
deflated with the table and the newest bases' own numbers as preset dictionary: what scrolls
becomes a shifted run of numbers, and what came back after a while needs no bytes. Both sides make
the table of pictures that both have, so nothing has to be kept in step but those.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from itertools import compress, repeat
from typing import NamedTuple

from Daddy.core.vocabulary import SCREEN_BYTES
from Daddy.streaming.wire.codec import CodecError

TILE_BYTES = 16
PLACES = SCREEN_BYTES // TILE_BYTES
_TILE = struct.Struct(f"{TILE_BYTES}s")
_PICTURE = struct.Struct(f"{TILE_BYTES}s" * PLACES)
NEW = 255
"""The number of a tile that no base shows; so the table has as many tiles at most."""
MAX_BASES = 32
MAX_MAPS = 8
"""Of so many bases, the newest, the numbers are in the dictionary."""
_LEVEL = 9
_RAW_DEFLATE = -15
_PIECE = 60
_ANY_FOR_NEW = bytes(range(NEW)) + bytes(1)
"""Numbers as they are, but the first tile where a new one is to come."""
_SMALL_WINDOW = -14
"""Reaches over a picture, its numbers and a whole dictionary, and takes half of the memory."""


class Tiled(NamedTuple):
    """A picture as its first ``NEW`` distinct tiles, a number of these a place, and the bytes of
    the tiles beyond them: half of what the picture itself would take, as games draw.
    """

    distinct: tuple[bytes, ...]
    numbers: bytes
    rest: bytes

    def tiles(self) -> bytes:
        """The picture in tile order."""
        return _joined(_paint(self.numbers, self.distinct, self.rest))


def tiled(tiles: bytes) -> Tiled:
    """Take a picture in tile order apart; CodecError unless it has ``SCREEN_BYTES`` bytes."""
    if len(tiles) != SCREEN_BYTES:
        raise CodecError(f"a picture has {SCREEN_BYTES} bytes, not {len(tiles)}")
    each = _PICTURE.unpack(tiles)
    table = _numbered(dict.fromkeys(each))
    numbers = _looked_up(each, table)
    return Tiled(tuple(table), numbers, _fresh(numbers, each))


def deflate(picture: Tiled, bases: Sequence[Tiled]) -> bytes:
    """A delta against ``bases``: one to ``MAX_BASES`` pictures, the oldest first."""
    table = _table(bases)
    numbers = _turned(picture, table)
    fresh = _fresh(numbers, _paint(picture.numbers, picture.distinct, picture.rest))
    squeeze = zlib.compressobj(
        _LEVEL,
        zlib.DEFLATED,
        _RAW_DEFLATE,
        zlib.DEF_MEM_LEVEL,
        zlib.Z_DEFAULT_STRATEGY,
        _dictionary(table, bases),
    )
    return squeeze.compress(numbers + fresh) + squeeze.flush()


def inflate(data: bytes, bases: Sequence[Tiled]) -> bytes:
    """A picture in tile order from :func:`deflate`'s bytes; CodecError where they make none.

    With other bases than :func:`deflate` had, it is another picture or none.
    Never allocates more than 64 KiB, whatever ``data`` and ``bases`` hold.
    """
    table = _table(bases)
    numbers, fresh = _widened(data, _dictionary(table, bases))
    try:
        return _joined(_paint(numbers, tuple(table), fresh))
    except IndexError:
        raise CodecError("a tile that is in no base") from None


def _widened(data: bytes, dictionary: bytes) -> tuple[bytes, bytes]:
    """Numbers and fresh tiles; what zlib needs for it is given back before they are used."""
    widen = zlib.decompressobj(_SMALL_WINDOW, zdict=dictionary)
    try:
        plain = widen.decompress(data, PLACES + SCREEN_BYTES + 1)
    except zlib.error as error:
        raise CodecError(f"not a deflated picture: {error}") from error
    numbers, fresh = plain[:PLACES], plain[PLACES:]
    whole = len(plain) == PLACES + numbers.count(NEW) * TILE_BYTES
    if not whole or len(numbers) != PLACES or not widen.eof or widen.unused_data:
        raise CodecError(f"{len(plain)} bytes and leftovers where one picture was expected")
    return numbers, fresh


def _joined(each: Sequence[bytes]) -> bytes:
    """One after the other. In pieces: a join of all would take 80 bytes for each meanwhile."""
    return b"".join([b"".join(each[at : at + _PIECE]) for at in range(0, len(each), _PIECE)])


def _paint(numbers: bytes, known: Sequence[bytes], fresh: bytes) -> list[bytes]:
    """The tile of each place; IndexError where a number is none of ``known``'s, of which there is
    at least one.
    """
    painted = list(map(known.__getitem__, numbers.translate(_ANY_FOR_NEW)))
    place = -1
    for (tile,) in _TILE.iter_unpack(fresh):
        place = numbers.index(NEW, place + 1)
        painted[place] = tile
    return painted


def _fresh(numbers: bytes, each: Sequence[bytes]) -> bytes:
    new = (number == NEW for number in numbers) if NEW in numbers else ()
    return _joined(list(compress(each, new)))


def _numbered(distinct: Iterable[bytes]) -> dict[bytes, int]:
    """The first tiles and their numbers: as many as have one."""
    return dict(zip(distinct, range(NEW), strict=False))


def _looked_up(each: Sequence[bytes], table: dict[bytes, int]) -> bytes:
    return bytes(map(table.get, each, repeat(NEW)))


def _table(bases: Sequence[Tiled]) -> dict[bytes, int]:
    """Number of each distinct tile, in order of appearance, the newest base first."""
    distinct: dict[bytes, None] = {}
    keep = distinct.setdefault
    for base in reversed(bases):
        for tile in base.distinct:
            keep(tile)
        if len(distinct) >= NEW:
            break
    return _numbered(distinct)


def _turned(picture: Tiled, table: dict[bytes, int]) -> bytes:
    """A number a place into ``table`` instead of into the picture's own tiles."""
    into = _looked_up(picture.distinct, table)
    return picture.numbers.translate(into.ljust(NEW + 1, bytes([NEW])))


def _dictionary(table: dict[bytes, int], bases: Sequence[Tiled]) -> bytes:
    """The tiles of the table, then the newest bases as numbers into it."""
    maps = (_turned(base, table) for base in bases[-MAX_MAPS:])
    return b"".join(table) + b"".join(maps)
