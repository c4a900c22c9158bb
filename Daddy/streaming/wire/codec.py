"""Pure: one Game Boy picture to a few bytes and back, lossless, standard library only.

A picture is ``SCREEN_BYTES`` bytes (160x144, 2 bits a pixel, row-major). Before deflate it is put
into tile order: the 16 bytes of each 8x8 tile side by side, because the game draws tiles and equal
tiles then become equal byte strings. A delta is the same bytes deflated with the base picture as
preset dictionary, which finds what has scrolled; an exclusive-or of the two would not.
"""

from __future__ import annotations

import zlib
from array import array

from Daddy.core.vocabulary import SCREEN_BYTES, SCREEN_HEIGHT, SCREEN_WIDTH

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
"""Where the units of a line stand among the tiles, and in the picture; made once, it is half of the
time that the turning round takes.
"""
_LEVEL = 6
_RAW_DEFLATE = -15
_SMALL_WINDOW = -14
"""Reaches over a picture and its base, and takes half of the memory."""


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
    if base is None:
        squeeze = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW_DEFLATE)
    else:
        squeeze = zlib.compressobj(
            _LEVEL, zlib.DEFLATED, _RAW_DEFLATE, zlib.DEF_MEM_LEVEL, zlib.Z_DEFAULT_STRATEGY, base
        )
    return squeeze.compress(tiles) + squeeze.flush()


def inflate(data: bytes, base: bytes | None) -> bytes:
    """A picture in tile order from :func:`deflate`'s bytes; CodecError for anything else.

    Never allocates more than one picture and a byte, whatever ``data`` claims to hold.
    """
    widen = (
        zlib.decompressobj(_SMALL_WINDOW)
        if base is None
        else zlib.decompressobj(_SMALL_WINDOW, zdict=base)
    )
    try:
        tiles = widen.decompress(data, SCREEN_BYTES + 1)
    except zlib.error as error:
        raise CodecError(f"not a deflated picture: {error}") from error
    if len(tiles) != SCREEN_BYTES or not widen.eof or widen.unused_data:
        raise CodecError(f"{len(tiles)} bytes and leftovers where one picture was expected")
    return tiles


def encode(picture: bytes, base: bytes | None = None) -> bytes:
    """A row-major picture to wire bytes; ``base`` is the row-major picture to differ from."""
    return deflate(to_tiles(picture), None if base is None else to_tiles(base))


def decode(data: bytes, base: bytes | None = None) -> bytes:
    """Wire bytes to a row-major picture; CodecError when they are not one."""
    return from_tiles(inflate(data, None if base is None else to_tiles(base)))
