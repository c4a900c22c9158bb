"""Pure: a picture as the tiles that earlier pictures have already shown, and where each stands.

The game draws from a small stock of tiles. A delta is therefore 360 numbers, one a place, into a
table of the tiles that its bases show, then the bytes of those tiles that no base shows, all of it
deflated with the table and the newest bases' own numbers as preset dictionary: what scrolls
becomes a shifted run of numbers, and what came back after a while needs no bytes. Both sides make
the table of pictures that both have, so nothing has to be kept in step but those.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, takewhile
from typing import NamedTuple

from Daddy.core.vocabulary import SCREEN_BYTES
from Daddy.streaming.wire.codec import CodecError

TILE_BYTES = 16
PLACES = SCREEN_BYTES // TILE_BYTES
NEW = 255
"""The number of a tile that no base shows; so the table has as many tiles at most."""
MAX_BASES = 32
MAX_MAPS = 8
"""Of so many bases, the newest, the numbers are in the dictionary."""
_LEVEL = 9
_RAW_DEFLATE = -15
_PIECE = 60
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
    each = list(_cut(tiles))
    table = dict(zip(dict.fromkeys(each), range(NEW), strict=False))
    numbers = bytes([table.get(tile, NEW) for tile in each])
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
    """A picture in tile order from :func:`deflate`'s bytes; CodecError for anything else.

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


def _cut(tiles: bytes) -> Iterator[bytes]:
    return (tiles[at : at + TILE_BYTES] for at in range(0, len(tiles), TILE_BYTES))


def _joined(tiles: Iterable[bytes]) -> bytes:
    """One after the other. In pieces: a join of all would take 80 bytes for each meanwhile."""
    each = list(tiles)
    return b"".join([b"".join(each[at : at + _PIECE]) for at in range(0, len(each), _PIECE)])


def _paint(numbers: bytes, known: Sequence[bytes], fresh: bytes) -> Iterator[bytes]:
    """The tile of each place; IndexError where a number is none of ``known``'s."""
    rest = _cut(fresh)
    return (next(rest) if number == NEW else known[number] for number in numbers)


def _fresh(numbers: bytes, each: Iterable[bytes]) -> bytes:
    return _joined(tile for tile, number in zip(each, numbers, strict=True) if number == NEW)


def _table(bases: Sequence[Tiled]) -> dict[bytes, int]:
    """Number of each distinct tile, in order of appearance, the newest base first."""
    distinct: dict[bytes, None] = {}
    shown = (base.distinct for base in reversed(bases))
    until_full = chain.from_iterable(takewhile(lambda _: len(distinct) < NEW, shown))
    deque(map(distinct.setdefault, until_full), maxlen=0)
    return dict(zip(distinct, range(NEW), strict=False))


def _turned(picture: Tiled, table: dict[bytes, int]) -> bytes:
    """A number a place into ``table`` instead of into the picture's own tiles."""
    into = bytes([table.get(tile, NEW) for tile in picture.distinct])
    return picture.numbers.translate(into.ljust(NEW + 1, bytes([NEW])))


def _dictionary(table: dict[bytes, int], bases: Sequence[Tiled]) -> bytes:
    """The tiles of the table, then the newest bases as numbers into it."""
    maps = (_turned(base, table) for base in bases[-MAX_MAPS:])
    return b"".join(table) + b"".join(maps)
