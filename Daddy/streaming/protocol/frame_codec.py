"""Pure. Encodes one Game Boy picture as a few bytes and back, lossless, standard library only.

A picture is ``SCREEN_BYTES`` bytes (160x144, 2 bits a pixel, row-major). Before deflate it is put
into tile order: the 16 bytes of each 8x8 tile side by side, because the game draws tiles and equal
tiles then become equal byte strings.

``deflate`` makes a delta with the base picture as preset dictionary, which finds what has scrolled.
``deflate_tiled`` makes a smaller one: 360 numbers into a table of the tiles that up to 32 bases
show, then the bytes of the tiles that no base shows, deflated with the table and the newest bases'
own numbers as preset dictionary. Both sides make the table of pictures that both have.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterable, Sequence
from itertools import compress, repeat
from typing import NamedTuple

from Daddy.core.shared_types import SCREEN_BYTES, SCREEN_HEIGHT, SCREEN_WIDTH
from Daddy.streaming.protocol.messages import FORMAT_TILES, FORMAT_TILING, Frame

_TILE_ROWS = 8
_UNITS_IN_LINE = SCREEN_WIDTH // 8
"""A unit is 2 bytes: the 8 pixels that one tile has in one line."""
_UNITS_IN_BAND = _UNITS_IN_LINE * _TILE_ROWS
_BANDS = SCREEN_HEIGHT // _TILE_ROWS
_SAME = tuple(
    (
        slice(band + row, band + _UNITS_IN_BAND, _TILE_ROWS),
        slice(band + row * _UNITS_IN_LINE, band + (row + 1) * _UNITS_IN_LINE),
    )
    for band in range(0, _BANDS * _UNITS_IN_BAND, _UNITS_IN_BAND)
    for row in range(_TILE_ROWS)
)
"""Places of a line's units among the tiles, and in the picture; made once, it is half of the
time that the turning round takes.
"""
_LEVEL = 6
_RAW_DEFLATE = -15
_SMALL_WINDOW = -14
"""Reaches over a picture, its numbers and its bases, and takes half of the memory."""


class CodecError(ValueError):
    """The bytes are no picture: damaged, too long, too short, or made against another base."""


def to_tiles(picture: bytes) -> bytes:
    """Row-major picture to tile order; ValueError unless it has ``SCREEN_BYTES`` bytes."""
    lines = _units(picture)
    tiles = array("H", bytes(SCREEN_BYTES))
    for in_tiles, in_lines in _SAME:
        tiles[in_tiles] = lines[in_lines]
    return tiles.tobytes()


def from_tiles(tiles: bytes) -> bytes:
    """Tile order back to row-major; the inverse of :func:`to_tiles`."""
    units = _units(tiles)
    lines = array("H", bytes(SCREEN_BYTES))
    for in_tiles, in_lines in _SAME:
        lines[in_lines] = units[in_tiles]
    return lines.tobytes()


def _units(picture: bytes) -> array[int]:
    if len(picture) != SCREEN_BYTES:
        raise CodecError(f"a picture has {SCREEN_BYTES} bytes, not {len(picture)}")
    return array("H", picture)


def deflate(tiles: bytes, base: bytes | None) -> bytes:
    """Raw deflate of a picture in tile order; ``base`` (also in tile order) makes it a delta."""
    squeeze = zlib.compressobj(_LEVEL, wbits=_RAW_DEFLATE, zdict=base or b"")
    return squeeze.compress(tiles) + squeeze.flush()


def inflate(data: bytes, base: bytes | None) -> bytes:
    """A picture in tile order, at most one picture and a byte; CodecError for anything else."""
    tiles = _widen(data, base or b"", SCREEN_BYTES)
    if len(tiles) != SCREEN_BYTES:
        raise CodecError(f"{len(tiles)} bytes where one picture was expected")
    return tiles


def _widen(data: bytes, dictionary: bytes, most: int) -> bytes:
    """Inflate at most ``most`` bytes; CodecError for damage, more bytes, and bytes left over."""
    widen = zlib.decompressobj(_SMALL_WINDOW, zdict=dictionary)
    try:
        plain = widen.decompress(data, most + 1)
    except zlib.error as error:
        raise CodecError(f"not a deflated picture: {error}") from error
    if len(plain) > most or not widen.eof or widen.unused_data:
        raise CodecError(f"{len(plain)} bytes and leftovers where one picture was expected")
    return plain


def encode(picture: bytes, base: bytes | None = None) -> bytes:
    """A row-major picture to wire bytes; ``base`` is the row-major picture to differ from."""
    return deflate(to_tiles(picture), None if base is None else to_tiles(base))


def decode(data: bytes, base: bytes | None = None) -> bytes:
    """Wire bytes to a row-major picture; CodecError when they are not one."""
    return from_tiles(inflate(data, None if base is None else to_tiles(base)))


TILE_BYTES = 16
PLACES = SCREEN_BYTES // TILE_BYTES
_TILE = struct.Struct(f"{TILE_BYTES}s")
_PICTURE = struct.Struct(f"{TILE_BYTES}s" * PLACES)
NEW = 255
"""The number of a tile that no base shows; so the table has as many tiles at most."""
MAX_BASES = 32
DICTIONARY_MAPS = 8
"""Of so many bases, the newest, the numbers are in the dictionary."""
_TILING_LEVEL = 9
_PIECE = 60
_ANY_FOR_NEW = bytes(range(NEW)) + bytes(1)
"""Numbers as they are, but the first tile where a new one is to come."""


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


def deflate_tiled(picture: Tiled, bases: Sequence[Tiled]) -> bytes:
    """A delta against ``bases``: one to ``MAX_BASES`` pictures, the oldest first."""
    table = _table(bases)
    numbers = _turned(picture, table)
    fresh = _fresh(numbers, _paint(picture.numbers, picture.distinct, picture.rest))
    dictionary = _dictionary(table, bases)
    squeeze = zlib.compressobj(_TILING_LEVEL, wbits=_RAW_DEFLATE, zdict=dictionary)
    return squeeze.compress(numbers + fresh) + squeeze.flush()


def inflate_tiled(data: bytes, bases: Sequence[Tiled]) -> bytes:
    """A picture in tile order from :func:`deflate_tiled`'s bytes; CodecError where they make none.

    With other bases than :func:`deflate_tiled` had, it is another picture or none.
    Never allocates more than 64 KiB, whatever ``data`` and ``bases`` hold.
    """
    table = _table(bases)
    plain = _widen(data, _dictionary(table, bases), PLACES + SCREEN_BYTES)
    numbers, fresh = plain[:PLACES], plain[PLACES:]
    if len(numbers) != PLACES or len(fresh) != numbers.count(NEW) * TILE_BYTES:
        raise CodecError(f"{len(plain)} bytes where one picture was expected")
    try:
        return _joined(_paint(numbers, tuple(table), fresh))
    except IndexError:
        raise CodecError("a tile that is in no base") from None


def _joined(each: Sequence[bytes]) -> bytes:
    """One after the other. In pieces: a join of all would take 80 bytes for each meanwhile."""
    return b"".join([b"".join(each[at : at + _PIECE]) for at in range(0, len(each), _PIECE)])


def _paint(numbers: bytes, known: Sequence[bytes], fresh: bytes) -> list[bytes]:
    """The tile of each place; IndexError for a number that ``known`` (one at least) has not."""
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
    maps = (_turned(base, table) for base in bases[-DICTIONARY_MAPS:])
    return b"".join(table) + b"".join(maps)


KEEP = 64
"""Pictures of a stream that a viewer remembers."""


class FrameDecoder:
    """Decodes the frames of one stream, of any format."""

    def __init__(self) -> None:
        self._history: dict[int, Tiled] = {}

    def decode(self, frame: Frame) -> bytes | None:
        """The row-major picture; None when a base is unknown or the bytes are damaged."""
        try:
            tiles = self._inflate(frame)
        except (CodecError, KeyError):
            return None
        self._history[frame.seq] = tiled(tiles)
        while len(self._history) > KEEP:
            del self._history[next(iter(self._history))]
        return from_tiles(tiles)

    def _inflate(self, frame: Frame) -> bytes:
        if frame.format == FORMAT_TILING and frame.base and frame.more < MAX_BASES:
            numbers = range(frame.base - frame.more, frame.base + 1)
            return inflate_tiled(frame.data, [self._history[number] for number in numbers])
        if frame.format == FORMAT_TILES and not frame.base:
            return inflate(frame.data, None)
        raise CodecError(f"a picture of format {frame.format}, which is not known here")
