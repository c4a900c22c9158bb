"""Pure: where the player stands, on the map and on the screen.

Promises that a half-finished warp (new map, old coordinates) is never taken for a place.
"""

from __future__ import annotations

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.memory import Image, byte, span

_LEAVING_DOOR = 0b10
_SCRIPT_WARP = 0b1000
_FLY_OR_DUNGEON_WARP = 0b11100
_SPRITE_Y, _SPRITE_X = 12, 8
"""A sprite's place is that of its cell plus this: the hardware's 16 and 8, drawn 4 lines higher."""
_LAST_CELL_Y, _LAST_CELL_X = 128, 144
CENTRE_Y, CENTRE_X = 64, 64
"""Pixels from the screen's corner to the player's cell, where the real game keeps it."""


def placed(image: Image) -> bool:
    """Whether map and coordinates belong together: they change in different frames of a warp."""
    if byte(image, ram.MOVEMENT_FLAGS) & _LEAVING_DOOR:
        return False
    if byte(image, ram.DUNGEON_WARP) & _SCRIPT_WARP:
        return False
    if byte(image, ram.STATUS_FLAGS_6) & _FLY_OR_DUNGEON_WARP:
        return False
    height, width = byte(image, ram.MAP_HEIGHT), byte(image, ram.MAP_WIDTH)
    x, y = byte(image, ram.PLAYER_X), byte(image, ram.PLAYER_Y)
    if height and width:
        return y < 2 * height and x < 2 * width
    return bool(x or y or byte(image, ram.MAP_ID))


def on_screen(image: Image) -> tuple[int, int]:
    """Line and column of the player's cell; the centre while the player is not drawn."""
    sprites = span(image, ram.PLAYER_SPRITE, 8)
    y, x = sprites[0] - _SPRITE_Y, min(sprites[1], sprites[5]) - _SPRITE_X
    drawn = 0 <= y <= _LAST_CELL_Y and 0 <= x <= _LAST_CELL_X
    return (y, x) if drawn else (CENTRE_Y, CENTRE_X)
