"""Pure: the emulator's picture and a Progress become the arrays that a policy sees.

Owns the observation space, and the rule that it holds nothing which a player could not know from
having played: no hidden thing, no counter, no flag of what waits elsewhere. Reading it by type is
enough: two-dimensional uint8 boxes are pictures, one-dimensional uint8 boxes are packed bits (least
significant first), other integers are numbers of a catalogue, float32 boxes are scalars of about
unit size.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Protocol

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from Daddy.pokemon import inventory, ladder
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.memory import bytes_at
from Daddy.pokemon.progress import Progress

Observation = dict[str, NDArray[np.generic]]

HEIGHT, WIDTH = 72, 80
_CELL = 8
"""Pixels a map cell measures in the halved picture."""
_FULL_CELL = 16
ROWS, COLUMNS = HEIGHT // _CELL + 1, WIDTH // _CELL + 1
"""Cells of the map that a picture can show: 10 rows of 11, the outer ones in part."""
SCALARS = 25
_LAST_ID = 255
_MONEY_DIGITS = 6.0
_SAFARI_STEPS = 500.0
_BAR: Final = 48
"""Pixels of an opponent's HP bar: nobody sees its HP more finely."""
_BIKE, _SURFING, _SAFARI = 1, 2, 2
_KNOWN: Final = ~sum(1 << ladder.COMES_AND_GOES[name] for name in ladder.UNKNOWN)
"""The event bits without those that tell what waits elsewhere."""


MEANING: Final = 1
"""Raised when a number of an observation comes to mean something else: weights do not fit then."""


def observation_space() -> spaces.Dict:
    """The space of one observation.

    screen (72, 80) uint8: every second pixel of every second line, one of 0, 85, 153, 255 (so
    `screen >> 6` is the brightness in 2 bits). visited (72, 80) uint8: 255 where a cell in sight
    was stepped on since the memory was last forgotten. events (320,) uint8: packed event bits.

    Numbers, int16, 0 to 255: map (2,) this map and where a lost battle leads back to; bag (20,)
    items; creatures (7,) the party's species and the opponent's; moves (24,) four of each member.
    0 stands for an empty place (as a map, for the first town).

    counts (20,) float32: how many of each item in the bag, of 99. party (96,) float32: 16 facts of
    each member, see `inventory`. scalars (25,) float32: see `scalars`.
    """
    return spaces.Dict(
        {
            "screen": spaces.Box(0, 255, (HEIGHT, WIDTH), np.uint8),
            "visited": spaces.Box(0, 255, (HEIGHT, WIDTH), np.uint8),
            "events": spaces.Box(0, 255, (ram.EVENT_BYTES,), np.uint8),
            "map": _numbers(2),
            "bag": _numbers(ram.BAG_SIZE),
            "creatures": _numbers(ram.PARTY_SIZE + 1),
            "moves": _numbers(ram.PARTY_SIZE * inventory.MOVES),
            "counts": spaces.Box(0.0, 1.0, (ram.BAG_SIZE,), np.float32),
            "party": spaces.Box(0.0, 1.0, (ram.PARTY_SIZE * inventory.FACTS,), np.float32),
            "scalars": spaces.Box(0.0, 1.0, (SCALARS,), np.float32),
        }
    )


def _numbers(many: int) -> spaces.Box:
    return spaces.Box(0, _LAST_ID, (many,), np.int16)


class CellMemory(Protocol):
    """What knows the visited cells (`visited.Visited`)."""

    def window(self, map_id: int, top: int, left: int) -> NDArray[np.bool_]:
        """(10, 11) bool: which cells of a map were visited, from row `top` and column `left`."""
        ...


def observe(screen: NDArray[np.uint8], progress: Progress, memory: CellMemory) -> Observation:
    """One observation from the halved picture (72, 80) uint8, the facts and the memory."""
    items, counts = inventory.bag(progress.image)
    species, moves, members = inventory.party(progress.image)
    creatures = np.empty(ram.PARTY_SIZE + 1, np.int16)
    creatures[:-1], creatures[-1] = species, progress.opponent
    return {
        "screen": screen,
        "visited": visited_mask(progress, memory),
        "events": packed_events(progress),
        "map": np.array([progress.map_id, progress.blackout_map], np.int16),
        "bag": items.copy(),
        "creatures": creatures,
        "moves": moves.copy(),
        "counts": counts.copy(),
        "party": members.copy(),
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
    window = memory.window(progress.map_id, progress.y - above, progress.x - left).tobytes()
    down = (above * _FULL_CELL - progress.screen_y) // 2
    right = (left * _FULL_CELL - progress.screen_x) // 2
    return _mask(window, down, right).copy()


@lru_cache(maxsize=64)
def _mask(window: bytes, down: int, right: int) -> NDArray[np.uint8]:
    """The cells of a window as pixels, from a line and a column on; who stands still asks again."""
    bands = [_band(window[first : first + COLUMNS]) for first in range(0, len(window), COLUMNS)]
    whole = np.frombuffer(b"".join(bands), np.uint8).reshape(ROWS * _CELL, COLUMNS * _CELL)
    return whole[down : down + HEIGHT, right : right + WIDTH].copy()


@lru_cache(maxsize=2048)
def _band(cells: bytes) -> bytes:
    """Eight lines of pixels that show a row of cells (0 or 1 each): there are 2,048 such rows."""
    line = b"".join([(b"\xff" if cell else b"\0") * _CELL for cell in cells])
    return line * _CELL


def packed_events(progress: Progress) -> NDArray[np.uint8]:
    """(320,) uint8: the event bytes as the game packs them, those of what waits elsewhere clear."""
    known = progress.events & _KNOWN
    return np.frombuffer(known.to_bytes(ram.EVENT_BYTES, "little"), np.uint8).copy()


def scalars(progress: Progress) -> NDArray[np.float32]:
    """(25,) float32 in [0, 1].

    8 badges, facing (2 bits), on a bicycle, surfing, battle (wild, trainer), a safari's battle, a
    text, the opponent's level and HP bar, money's digits, safari steps left, darkness, Strength on;
    and four facts of the story that no event tells: the drink given, the gift in Silph taken, the
    rival on the ship beaten, the hideout's guard gone.
    """
    shares = _BAR * progress.enemy_hp, progress.money, progress.safari_steps, progress.enemy_level
    return _scalars(*_SHOWN(progress.image), progress.battle, *shares).copy()


@lru_cache(maxsize=512)
def _scalars(
    badges: int,
    facing: int,
    riding: int,
    kind: int,
    font: int,
    dark: int,
    flags_1: int,
    flags_4: int,
    ship: int,
    guard: int,
    battle: int,
    bar: float,
    money: int,
    safari_steps: int,
    enemy_level: int,
) -> NDArray[np.float32]:
    """Equal numbers give the same array (not to be written to)."""
    return np.array(
        [
            *[badges >> bit & 1 for bit in range(8)],
            facing >> 2 & 1,
            facing >> 3 & 1,
            riding == _BIKE,
            riding == _SURFING,
            battle / 2,
            kind == _SAFARI,
            font & 1,
            min(enemy_level / ram.MAX_LEVEL, 1.0),
            int(bar) / _BAR,
            min(len(str(money)) / _MONEY_DIGITS, 1.0) if money else 0.0,
            min(safari_steps / _SAFARI_STEPS, 1.0),
            dark != 0,
            bool(flags_1 & ram.STRENGTH_ON),
            bool(flags_1 & ram.GAVE_DRINK),
            bool(flags_4 & ram.GOT_LAPRAS),
            ship == ram.SHIP_RIVAL_BEATEN,
            guard >> ram.GAME_CORNER_ROCKET % 8 & 1,
        ],
        np.float32,
    )


_SHOWN = bytes_at(
    *(ram.BADGES, ram.FACING, ram.RIDING, ram.BATTLE_KIND, ram.FONT_LOADED, ram.DARKNESS),
    *(ram.STATUS_FLAGS_1, ram.STATUS_FLAGS_4, ram.SHIP_SCRIPT),
    ram.TOGGLES + ram.GAME_CORNER_ROCKET // 8,
)
