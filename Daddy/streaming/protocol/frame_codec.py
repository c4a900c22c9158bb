"""Pure. Compresses a Game Boy picture to a few bytes and back, without loss, with zlib alone.

A picture has ``SCREEN_BYTES`` bytes (160x144, 2 bits a pixel, row-major). Before deflate its bytes
are put into tile order, the 16 bytes of each 8x8 tile next to each other: the game draws tiles, so
equal tiles become equal byte strings.

``deflate`` makes a delta with the base picture as preset dictionary, which also matches a scrolled
picture. ``deflate_tiled`` makes a smaller delta: 360 numbers into a table of the tiles of up to 32
bases, then the bytes of the tiles that no base has, deflated with the table and the newest bases'
own numbers as preset dictionary. Sender and receiver build the same table from the same bases.
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
"""Slices of a line's units in tile order and in the picture; building them for each picture would
take half of the conversion's time."""
_LEVEL = 6
_RAW_DEFLATE = -15
_SMALL_WINDOW = -14
"""A window that covers a picture, its numbers and its bases, and needs half of the memory."""


class CodecError(ValueError):
    """Reports bytes that are no picture: damaged, of wrong length, or made with other bases."""


def to_tiles(picture: bytes) -> bytes:
    """Return a row-major picture in tile order; CodecError unless it has ``SCREEN_BYTES`` bytes."""
    lines = _units(picture)
    tiles = array("H", bytes(SCREEN_BYTES))
    for in_tiles, in_lines in _SAME:
        tiles[in_tiles] = lines[in_lines]
    return tiles.tobytes()


def from_tiles(tiles: bytes) -> bytes:
    """Return a picture in tile order as row-major bytes; the inverse of :func:`to_tiles`."""
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
    """Compress a picture in tile order; with ``base`` (in tile order) the result is a delta."""
    compressor = zlib.compressobj(_LEVEL, wbits=_RAW_DEFLATE, zdict=base or b"")
    return compressor.compress(tiles) + compressor.flush()


def inflate(data: bytes, base: bytes | None) -> bytes:
    """Decompress to a picture in tile order; CodecError unless it is exactly one picture."""
    tiles = _decompress(data, base or b"", SCREEN_BYTES)
    if len(tiles) != SCREEN_BYTES:
        raise CodecError(f"a picture inflates to {len(tiles)} bytes, not {SCREEN_BYTES}")
    return tiles


def _decompress(data: bytes, dictionary: bytes, most: int) -> bytes:
    """Inflate to at most ``most`` bytes; CodecError if damaged, longer or with bytes left over."""
    decompressor = zlib.decompressobj(_SMALL_WINDOW, zdict=dictionary)
    try:
        plain = decompressor.decompress(data, most + 1)
    except zlib.error as error:
        raise CodecError(f"not a deflated picture: {error}") from error
    if len(plain) > most or not decompressor.eof or decompressor.unused_data:
        raise CodecError(f"a picture inflates to {len(plain)} bytes, or has bytes left over")
    return plain


def encode(picture: bytes, base: bytes | None = None) -> bytes:
    """Compress a row-major picture; with ``base`` (row-major) the result is a delta."""
    return deflate(to_tiles(picture), None if base is None else to_tiles(base))


def decode(data: bytes, base: bytes | None = None) -> bytes:
    """Decompress to a row-major picture. CodecError if ``data`` holds no picture."""
    return from_tiles(inflate(data, None if base is None else to_tiles(base)))


TILE_BYTES = 16
PLACES = SCREEN_BYTES // TILE_BYTES
_TILE = struct.Struct(f"{TILE_BYTES}s")
_PICTURE = struct.Struct(f"{TILE_BYTES}s" * PLACES)
NEW = 255
"""The number that stands for a tile that no base has; the table has at most ``NEW`` tiles."""
MAX_BASES = 32
DICTIONARY_MAPS = 8
"""Newest bases whose numbers are part of the preset dictionary."""
_TILING_LEVEL = 9
_JOIN_AT_ONCE = 60
_ANY_FOR_NEW = bytes(range(NEW)) + bytes(1)
"""Translates each number to itself, and ``NEW`` to 0 until its tile is filled in."""


class TiledPicture(NamedTuple):
    """A picture as its first ``NEW`` distinct tiles, one number into them per place, and the bytes
    of the remaining tiles; together half of the picture's own bytes for the game's pictures.
    """

    distinct: tuple[bytes, ...]
    numbers: bytes
    rest: bytes

    def tiles(self) -> bytes:
        """Return the picture in tile order."""
        return _join(_tile_per_place(self.numbers, self.distinct, self.rest))


def split_tiles(tiles: bytes) -> TiledPicture:
    """Split a picture in tile order; CodecError unless it has ``SCREEN_BYTES`` bytes."""
    if len(tiles) != SCREEN_BYTES:
        raise CodecError(f"a picture has {SCREEN_BYTES} bytes, not {len(tiles)}")
    each = _PICTURE.unpack(tiles)
    table = _numbered(dict.fromkeys(each))
    numbers = _look_up(each, table)
    return TiledPicture(tuple(table), numbers, _new_tiles(numbers, each))


def deflate_tiled(picture: TiledPicture, bases: Sequence[TiledPicture]) -> bytes:
    """Return a delta against ``bases``: one to ``MAX_BASES`` pictures, the oldest first."""
    table = _table(bases)
    numbers = _renumber(picture, table)
    each = _tile_per_place(picture.numbers, picture.distinct, picture.rest)
    new = _new_tiles(numbers, each)
    dictionary = _dictionary(table, bases)
    compressor = zlib.compressobj(_TILING_LEVEL, wbits=_RAW_DEFLATE, zdict=dictionary)
    return compressor.compress(numbers + new) + compressor.flush()


def inflate_tiled(data: bytes, bases: Sequence[TiledPicture]) -> bytes:
    """Return the picture in tile order that :func:`deflate_tiled` compressed, or raise CodecError.

    Other bases than the sender's give another picture or an error. At most 64 KiB are allocated.
    """
    table = _table(bases)
    plain = _decompress(data, _dictionary(table, bases), PLACES + SCREEN_BYTES)
    numbers, new = plain[:PLACES], plain[PLACES:]
    if len(numbers) != PLACES or len(new) != numbers.count(NEW) * TILE_BYTES:
        raise CodecError(f"a tiled picture inflates to {len(plain)} bytes, which do not fit")
    try:
        return _join(_tile_per_place(numbers, tuple(table), new))
    except IndexError:
        raise CodecError("a picture refers to a tile that is in no base") from None


def _join(each: Sequence[bytes]) -> bytes:
    """Join tiles in groups of 60: one join of all would need 80 bytes more for each tile."""
    starts = range(0, len(each), _JOIN_AT_ONCE)
    return b"".join([b"".join(each[at : at + _JOIN_AT_ONCE]) for at in starts])


def _tile_per_place(numbers: bytes, table: Sequence[bytes], new: bytes) -> list[bytes]:
    """Return the tile of each place; IndexError for a number that is not in ``table``."""
    tiles = list(map(table.__getitem__, numbers.translate(_ANY_FOR_NEW)))
    place = -1
    for (tile,) in _TILE.iter_unpack(new):
        place = numbers.index(NEW, place + 1)
        tiles[place] = tile
    return tiles


def _new_tiles(numbers: bytes, each: Sequence[bytes]) -> bytes:
    is_new = (number == NEW for number in numbers) if NEW in numbers else ()
    return _join(list(compress(each, is_new)))


def _numbered(distinct: Iterable[bytes]) -> dict[bytes, int]:
    """Return a number for each of the first ``NEW`` tiles."""
    return dict(zip(distinct, range(NEW), strict=False))


def _look_up(each: Sequence[bytes], table: dict[bytes, int]) -> bytes:
    return bytes(map(table.get, each, repeat(NEW)))


def _table(bases: Sequence[TiledPicture]) -> dict[bytes, int]:
    """Assign numbers to the distinct tiles in order of appearance, the newest base first."""
    distinct: dict[bytes, None] = {}
    for base in reversed(bases):
        for tile in base.distinct:
            distinct.setdefault(tile)
        if len(distinct) >= NEW:
            break
    return _numbered(distinct)


def _renumber(picture: TiledPicture, table: dict[bytes, int]) -> bytes:
    """Return the picture's numbers as numbers into ``table``; ``NEW`` for tiles not in it."""
    numbers = _look_up(picture.distinct, table)
    return picture.numbers.translate(numbers.ljust(NEW + 1, bytes([NEW])))


def _dictionary(table: dict[bytes, int], bases: Sequence[TiledPicture]) -> bytes:
    """Return the tiles of the table, then the newest bases as numbers into the table."""
    maps = (_renumber(base, table) for base in bases[-DICTIONARY_MAPS:])
    return b"".join(table) + b"".join(maps)


KEEP = 64
"""Pictures of a stream that a viewer remembers."""


class FrameDecoder:
    """Decodes the frames of one stream, in any format, and remembers the last 64 pictures."""

    def __init__(self) -> None:
        self._history: dict[int, TiledPicture] = {}

    def decode(self, frame: Frame) -> bytes | None:
        """Return the row-major picture; None if a base is missing or the bytes are damaged."""
        try:
            tiles = self._inflate(frame)
        except (CodecError, KeyError):
            return None
        self._history[frame.seq] = split_tiles(tiles)
        while len(self._history) > KEEP:
            del self._history[next(iter(self._history))]
        return from_tiles(tiles)

    def _inflate(self, frame: Frame) -> bytes:
        if frame.format == FORMAT_TILING and frame.base and frame.more < MAX_BASES:
            numbers = range(frame.base - frame.more, frame.base + 1)
            return inflate_tiled(frame.data, [self._history[number] for number in numbers])
        if frame.format == FORMAT_TILES and not frame.base:
            return inflate(frame.data, None)
        raise CodecError(f"a picture has the unknown format {frame.format}")
