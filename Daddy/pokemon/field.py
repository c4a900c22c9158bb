"""Pure: whether a move that opens ways was used on the map, and did its work.

Strength, Surf, Flash and Fly leave a trace in memory. Cut leaves none: the shrub in front of the
player is gone afterwards, which nothing else does while the player stands and looks there.
"""

from __future__ import annotations

from typing import Final

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.memory import byte
from Daddy.pokemon.party import CUT, FIELD_MOVES
from Daddy.pokemon.progress import Progress

_CUT, _FLY, _SURF, _STRENGTH, _FLASH = range(len(FIELD_MOVES))
_MAPS: Final = 256
_SURFING: Final = 2
_SHRUBS: Final = {0: 0x3D, 7: 0x50}
"""Tile of a shrub by the map's set of tiles: outdoors, and in a hall."""
_TILES_AHEAD: Final = tuple(
    ram.TILES + row * ram.TILE_COLUMNS + column
    for row, column in ((11, 8), (7, 8), (9, 6), (9, 10))
)
"""The lower left tile of the cell in front of a player who faces down, up, left, right."""

Shrub = tuple[int, int, int, int] | None
"""Map, row, column and direction from which a shrub was last looked at; None: at no shrub."""


def uses(shrub: Shrub, was: Progress, now: Progress) -> int:
    """Moves that did their work in this step: bit (256 x place in FIELD_MOVES + map)."""
    found = 0
    if shrub is not None and _free(now) and _stand(now) == shrub and not _shrub_ahead(now):
        found |= _bit(_CUT, now.map_id)
    if now.riding == _SURFING != was.riding:
        found |= _bit(_SURF, now.map_id)
    if now.strength_on and not was.strength_on:
        found |= _bit(_STRENGTH, now.map_id)
    if was.dark and not now.dark and was.map_id == now.map_id:
        found |= _bit(_FLASH, now.map_id)
    if now.flying and not was.flying:
        found |= _bit(_FLY, was.map_id)
    return found


def next_shrub(shrub: Shrub, now: Progress) -> Shrub:
    """Which shrub the player looks at, kept while menus and texts are open before it."""
    if not _free(now):
        return shrub if shrub is not None and _stand(now) == shrub else None
    can_cut = _shrub_ahead(now) and now.move_bits >> CUT & 1
    return _stand(now) if can_cut else None


def _free(now: Progress) -> bool:
    return now.placed and not now.text_box and not now.battle


def _stand(now: Progress) -> tuple[int, int, int, int]:
    return now.map_id, now.y, now.x, now.facing


def _shrub_ahead(now: Progress) -> bool:
    tile = byte(now.image, _TILES_AHEAD[now.facing])
    return _SHRUBS.get(byte(now.image, ram.TILESET)) == tile


def _bit(kind: int, place: int) -> int:
    return 1 << kind * _MAPS + place
