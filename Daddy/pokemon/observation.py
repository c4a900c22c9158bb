"""Pure: the emulator's picture and a Progress become the arrays that a policy sees.

Owns the observation space. Reading it by type is enough: two-dimensional uint8 boxes are pictures,
one-dimensional uint8 boxes are packed bits (least significant first), float32 boxes are scalars of
about unit size.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.progress import Progress, fraction

Observation = dict[str, NDArray[np.generic]]

HEIGHT, WIDTH = 72, 80
_CELL = 8
"""Pixels a map cell measures in the halved picture."""
_FULL_CELL = 16
ROWS, COLUMNS = HEIGHT // _CELL + 1, WIDTH // _CELL + 1
"""Cells of the map that a picture can show: 10 rows of 11, the outer ones in part."""
SCALARS = 16
_MONEY_DIGITS = 6.0


def observation_space() -> spaces.Dict:
    """The space of one observation.

    screen (72, 80) uint8: every second pixel of every second line, one of 0, 85, 153, 255 (so
    `screen >> 6` is the brightness in 2 bits). visited (72, 80) uint8: 255 where a cell in sight
    was stepped on in this episode. events (320,) uint8: packed event bits. map (1,) uint8: the map
    number's bits. party (12,) float32: level / 100 and HP / maximum of six slots. scalars (16,)
    float32: see `scalars`.
    """
    return spaces.Dict(
        {
            "screen": spaces.Box(0, 255, (HEIGHT, WIDTH), np.uint8),
            "visited": spaces.Box(0, 255, (HEIGHT, WIDTH), np.uint8),
            "events": spaces.Box(0, 255, (ram.EVENT_BYTES,), np.uint8),
            "map": spaces.Box(0, 255, (1,), np.uint8),
            "party": spaces.Box(0.0, 1.0, (2 * ram.PARTY_SIZE,), np.float32),
            "scalars": spaces.Box(0.0, 1.0, (SCALARS,), np.float32),
        }
    )


class CellMemory(Protocol):
    """What knows the cells of this episode (`visited.Visited`)."""

    def window(self, map_id: int, top: int, left: int) -> NDArray[np.bool_]:
        """(10, 11) bool: which cells of a map were visited, from row `top` and column `left`."""
        ...


def observe(screen: NDArray[np.uint8], progress: Progress, memory: CellMemory) -> Observation:
    """One observation from the halved picture (72, 80) uint8, the facts and the memory."""
    return {
        "screen": screen,
        "visited": visited_mask(progress, memory),
        "events": packed_events(progress),
        "map": np.array([progress.map_id], np.uint8),
        "party": party(progress),
        "scalars": scalars(progress),
    }


def visited_mask(progress: Progress, memory: CellMemory) -> NDArray[np.uint8]:
    """(72, 80) uint8: 255 on the cells in sight that were visited, 8x8 pixels each.

    All 0 in a battle, which hides the map. The picture may begin within a cell: games move their
    camera by pixels.
    """
    if progress.battle:
        return np.zeros((HEIGHT, WIDTH), np.uint8)
    above, left = -(-progress.screen_y // _FULL_CELL), -(-progress.screen_x // _FULL_CELL)
    window = memory.window(progress.map_id, progress.y - above, progress.x - left)
    mask = np.empty((ROWS, _CELL, COLUMNS, _CELL), np.uint8)
    mask[:] = (window * np.uint8(255))[:, None, :, None]
    down = (above * _FULL_CELL - progress.screen_y) // 2
    right = (left * _FULL_CELL - progress.screen_x) // 2
    whole = mask.reshape(ROWS * _CELL, COLUMNS * _CELL)
    return whole[down : down + HEIGHT, right : right + WIDTH].copy()


def packed_events(progress: Progress) -> NDArray[np.uint8]:
    """(320,) uint8: the event bytes as the game packs them."""
    return np.frombuffer(progress.events.to_bytes(ram.EVENT_BYTES, "little"), np.uint8).copy()


def party(progress: Progress) -> NDArray[np.float32]:
    """(12,) float32: level / 100 and HP / maximum of each slot, 0 where it is empty."""
    values = np.zeros(2 * ram.PARTY_SIZE, np.float32)
    for slot, creature in enumerate(progress.party):
        values[2 * slot] = creature.level / ram.MAX_LEVEL
        values[2 * slot + 1] = fraction(creature.hp, creature.max_hp)
    return values


def scalars(progress: Progress) -> NDArray[np.float32]:
    """(16,) float32 in [0, 1]: 8 badges, facing (2 bits), battle, text, opponent, money, bag."""
    badges = [float(progress.badges >> bit & 1) for bit in range(8)]
    return np.array(
        [
            *badges,
            progress.facing & 1,
            progress.facing >> 1,
            progress.battle / 2,
            progress.text_box,
            min(progress.enemy_level / ram.MAX_LEVEL, 1.0),
            progress.enemy_hp,
            min(len(str(progress.money)) / _MONEY_DIGITS, 1.0) if progress.money else 0.0,
            progress.items / ram.BAG_SIZE,
        ],
        np.float32,
    )
