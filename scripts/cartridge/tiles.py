"""Pure. Turns pictures drawn with characters into the Game Boy's tiles (8x8 pixels, 2 bit planes).

``.`` is shade 0 (white, or transparent in a sprite), ``-`` 1, ``+`` 2 and ``#`` 3 (black).
"""

from scripts.cartridge.expressions import AsmError

SHADES = ".-+#"
TILE = 8


def tiles(rows: list[str], column_major: bool) -> bytes:
    """Encode tiles, 16 bytes each, along the rows, or down the columns for tall sprites."""
    width = len(rows[0])
    if len(rows) % TILE or width % TILE or any(len(row) != width for row in rows):
        raise AsmError(f"a picture of {len(rows)} rows is not made of 8x8 tiles")
    places = [(y, x) for y in range(0, len(rows), TILE) for x in range(0, width, TILE)]
    if column_major:
        places.sort(key=lambda place: (place[1], place[0]))
    return b"".join(_tile([row[x : x + TILE] for row in rows[y : y + TILE]]) for y, x in places)


def _tile(rows: list[str]) -> bytes:
    planes = bytearray()
    for row in rows:
        if not set(row) <= set(SHADES):
            raise AsmError(f"picture row {row!r} has a character outside {SHADES!r}")
        shades = [SHADES.index(pixel) for pixel in row]
        for plane in (0, 1):
            planes.append(
                sum((shade >> plane & 1) << 7 - index for index, shade in enumerate(shades))
            )
    return bytes(planes)
