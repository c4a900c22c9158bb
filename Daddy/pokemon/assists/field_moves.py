"""Pure: moves that open ways, used without their menus; as the game does it once one was chosen."""

from __future__ import annotations

from typing import Final

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.assists.moment import Act, Moment, Trace, Verdict
from Daddy.pokemon.party import STRENGTH, SURF

_RAINBOW, _SOUL = 3, 4
"""Badges without which the game lets nobody use Strength, and Surf."""
_SURFING: Final = 2
_WATER: Final = 0x14
_WATER_TILESETS: Final = frozenset((0, 3, 5, 7, 13, 14, 17, 22, 23))
"""Tilesets in which tile 0x14 is water."""
_CYCLING_ROAD: Final = 28
"""Nobody gets off the bicycle there."""
_COLUMNS: Final = 20
_AHEAD: Final = {"down": (11, 8), "up": (7, 8), "left": (9, 6), "right": (9, 10)}
"""Row and column of the tile that the game itself looks at when the player faces there."""
_FACING: Final = ("down", "up", "left", "right")


def flash(now: Moment) -> Act | None:
    """A dark cave is lit, whoever knows Flash."""
    if not now.calm or not now.progress.dark:
        return None
    return Act("a dark cave is lit", ((ram.DARKNESS, 0),))


def flash_worked(trace: Trace, now: Moment) -> Verdict:
    """The cave stays lit."""
    if now.progress.map_id != trace.place[0]:
        return Verdict.MOOT
    return Verdict.FAILED if now.progress.dark else Verdict.WORKED


def use_strength(now: Moment) -> Act | None:
    """Boulders can be pushed on every map, once that is allowed."""
    able = STRENGTH in now.progress.moves and now.has_badge(_RAINBOW)
    if not now.calm or not able or now.progress.strength_on:
        return None
    flags = now.at(ram.STATUS_FLAGS_1) | ram.STRENGTH_ON
    return Act("boulders can be pushed", ((ram.STATUS_FLAGS_1, flags),))


def use_surf(now: Moment) -> Act | None:
    """Who faces water and walks on goes on upon it."""
    able = SURF in now.progress.moves and now.has_badge(_SOUL)
    if not now.calm or not able or now.progress.riding == _SURFING:
        return None
    if now.progress.map_id == _CYCLING_ROAD or not _walks_into_water(now):
        return None
    return Act("onto the water", ((ram.RIDING, _SURFING),))


def _walks_into_water(now: Moment) -> bool:
    if now.button != _FACING[now.progress.facing]:
        return False
    row, column = _AHEAD[now.button]
    tile = now.at(ram.TILES + row * _COLUMNS + column)
    return tile == _WATER and now.at(ram.TILESET) in _WATER_TILESETS


def surf_worked(trace: Trace, now: Moment) -> Verdict:
    """The player is on the water, elsewhere than before."""
    if now.progress.riding != _SURFING:
        return Verdict.FAILED
    return Verdict.OPEN if now.place == trace.place else Verdict.WORKED
