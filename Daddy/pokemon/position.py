"""Pure: where the player stands, on the map and on the screen.

Promises that a half-finished warp (new map, old coordinates) is never taken for a place.
"""

from __future__ import annotations

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.memory import Image, bytes_at

_LEAVING_DOOR = 0b10
_SCRIPT_WARP = 0b1000
_FLY_OR_DUNGEON_WARP = 0b11100
_SPRITE_Y, _SPRITE_X = 12, 8
"""A sprite's place is that of its cell plus this: the hardware's 16 and 8, drawn 4 lines higher."""
_LAST_CELL_Y, _LAST_CELL_X = 128, 144
CENTRE_Y, CENTRE_X = 64, 64
"""Pixels from the screen's corner to the player's cell, where the real game keeps it."""
_PLACE = bytes_at(
    *(ram.MOVEMENT_FLAGS, ram.DUNGEON_WARP, ram.STATUS_FLAGS_6, ram.MAP_HEIGHT, ram.MAP_WIDTH),
    *(ram.PLAYER_X, ram.PLAYER_Y, ram.MAP_ID),
)
_SPRITES = bytes_at(ram.PLAYER_SPRITE, ram.PLAYER_SPRITE + 1, ram.PLAYER_SPRITE + 5)


def placed(image: Image) -> bool:
    """Whether map and coordinates belong together: they change in different frames of a warp."""
    moving, dungeon, flight, height, width, x, y, map_id = _PLACE(image)
    if moving & _LEAVING_DOOR or dungeon & _SCRIPT_WARP or flight & _FLY_OR_DUNGEON_WARP:
        return False
    if height and width:
        return y < 2 * height and x < 2 * width
    return bool(x or y or map_id)


def on_screen(image: Image) -> tuple[int, int]:
    """Line and column of the player's cell; the centre while the player is not drawn."""
    line, left, right = _SPRITES(image)
    y, x = line - _SPRITE_Y, min(left, right) - _SPRITE_X
    drawn = 0 <= y <= _LAST_CELL_Y and 0 <= x <= _LAST_CELL_X
    return (y, x) if drawn else (CENTRE_Y, CENTRE_X)
