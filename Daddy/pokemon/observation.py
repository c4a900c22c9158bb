"""Pure. Turns the emulator's screen and a Progress into the arrays that a policy observes.

An observation has only facts that a player can know from playing: nothing hidden, no counter, no
flag of an event that is prepared elsewhere. A policy tells the arrays by type: two-dimensional
uint8 boxes are pictures, one-dimensional uint8 boxes are packed bits (least significant first),
other integers are category numbers, float32 boxes are scalars of about unit size.

Cached functions return the same array for equal bytes, which must not be written to.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon import story_order
from Daddy.pokemon.game_progress import Progress, fraction
from Daddy.pokemon.memory_decoding import bytes_at
from Daddy.pokemon.party import BLOCK, Creature, parse_party

if TYPE_CHECKING:
    from collections.abc import Sequence

    from Daddy.pokemon.exploration import VisitedCells

Observation = dict[str, NDArray[np.generic]]
Numbers = NDArray[np.int16]
Shares = NDArray[np.float32]

HEIGHT, WIDTH = 72, 80
_CELL = 8
"""Side of a map cell in the halved picture, in pixels."""
_FULL_CELL = 16
ROWS, COLUMNS = HEIGHT // _CELL + 1, WIDTH // _CELL + 1
"""Cells of the map that a picture can show: 10 rows of 11, the outer ones partly."""
SCALARS = 25
_LAST_ID = 255
_MONEY_DIGITS = 6.0
_SAFARI_STEPS = 500.0
_BAR: Final = 48
"""Pixels of an opponent's HP bar, the only display of its HP."""
_BIKE, _SURFING, _SAFARI = 1, 2, 2
MOVES: Final = 4
FACTS: Final = 16
"""Facts per member: level, HP, maximum HP, attack, defense, speed, special, asleep, poisoned,
burnt, frozen, paralysed, and the uses left of each of four moves."""
_MAX_QUANTITY: Final = 99
_LARGEST_HP: Final = 703
_LARGEST_STAT: Final = 999
_MAX_USES: Final = 63
_ASLEEP: Final = 0b111
_STATUS: Final = (1 << 3, 1 << 4, 1 << 5, 1 << 6)
_BAG: Final = slice(ram.BAG_COUNT - ram.RAM_START, ram.BAG + 2 * ram.BAG_SIZE - ram.RAM_START)
_KNOWN: Final = ~sum(1 << story_order.TRANSIENT_FLAGS[name] for name in story_order.NEVER_OBSERVED)
"""All event bits but those that reveal an event prepared on another map."""


MEANING: Final = 1
"""Version of the observation: increased when a number changes its meaning, as weights depend on it.
"""


def observation_space() -> spaces.Dict:
    """Return the space of one observation.

    screen (72, 80) uint8: every second pixel of every second line, one of 0, 85, 153, 255 (so
    `screen >> 6` is the brightness in 2 bits). visited (72, 80) uint8: 255 on cells in sight that
    were visited since the memory was last cleared. events (320,) uint8: packed event bits.

    Category numbers, int16, 0 to 255: map (2,) the present map and the one after a lost battle;
    bag (20,) items; creatures (7,) the party's species and the opponent's; moves (24,) four of each
    member. 0 is an empty slot (of maps, the first town).

    counts (20,) float32: quantities of the items in the bag, / 99. party (96,) float32: 16 facts of
    each member, see FACTS. scalars (25,) float32: see `scalars`.
    """
    return spaces.Dict(
        {
            "screen": spaces.Box(0, 255, (HEIGHT, WIDTH), np.uint8),
            "visited": spaces.Box(0, 255, (HEIGHT, WIDTH), np.uint8),
            "events": spaces.Box(0, 255, (ram.EVENT_BYTES,), np.uint8),
            "map": _numbers(2),
            "bag": _numbers(ram.BAG_SIZE),
            "creatures": _numbers(ram.PARTY_SIZE + 1),
            "moves": _numbers(ram.PARTY_SIZE * MOVES),
            "counts": spaces.Box(0.0, 1.0, (ram.BAG_SIZE,), np.float32),
            "party": spaces.Box(0.0, 1.0, (ram.PARTY_SIZE * FACTS,), np.float32),
            "scalars": spaces.Box(0.0, 1.0, (SCALARS,), np.float32),
        }
    )


def _numbers(count: int) -> spaces.Box:
    return spaces.Box(0, _LAST_ID, (count,), np.int16)


def empty_observation() -> Observation:
    """Return new arrays for one observation."""
    return {name: np.empty(shape, dtype) for name, shape, dtype in _ARRAYS}


def observe(screen: NDArray[np.uint8], progress: Progress, visited: VisitedCells) -> Observation:
    """Make an observation from the halved screen (72, 80) uint8, facts and visited cells."""
    return ObservationWriter(empty_observation()).write(screen, progress, visited)


class ObservationWriter:
    """Writes observations into the same arrays, and of each only the arrays that have changed.

    Nobody else may write to `arrays`, except the screen.
    """

    def __init__(self, arrays: Observation) -> None:
        self.arrays = arrays
        self.screen: NDArray[np.uint8] = np.asarray(arrays["screen"], np.uint8)
        self._targets = [arrays[name] for name in _WRITTEN]
        self._written: Sequence[NDArray[np.generic] | None] = [None] * len(_WRITTEN)
        self._sources: tuple[object, int] = (None, -1)
        self._held: Sequence[NDArray[np.generic]] = ()

    def write(
        self, screen: NDArray[np.uint8], progress: Progress, visited: VisitedCells
    ) -> Observation:
        """Write the observation that `observe` makes, and return `arrays`."""
        if screen is not self.screen:
            self.screen[...] = screen
        holdings, opponent = self._sources
        if progress.holdings is not holdings or progress.opponent != opponent:
            self._sources = progress.holdings, progress.opponent
            self._held = (
                packed_events(progress.events),
                _maps(progress.map_id, progress.blackout_map),
                *_bag_arrays(progress.image[_BAG]),
                *_party_arrays(progress.image[BLOCK], progress.opponent),
            )
        often = visited_mask(progress, visited), scalars(progress)
        arrays: list[NDArray[np.generic]] = [*often, *self._held]
        for target, array, written in zip(self._targets, arrays, self._written, strict=True):
            if array is not written:
                target[...] = array
        self._written = arrays
        return self.arrays


@lru_cache(maxsize=256)
def _maps(present: int, after_blackout: int) -> Numbers:
    return np.array([present, after_blackout], np.int16)


@lru_cache(maxsize=256)
def _bag_arrays(block: bytes) -> tuple[Numbers, Shares]:
    """Return items (20,) int16 in the bag's order, 0 for none, and quantities / 99 (20,)."""
    count = min(block[0], ram.BAG_SIZE)
    listed = np.frombuffer(block, np.uint8, 2 * count, 1)
    items, counts = np.zeros(ram.BAG_SIZE, np.int16), np.zeros(ram.BAG_SIZE, np.float32)
    items[:count] = listed[::2]
    counts[:count] = np.minimum(listed[1::2] / _MAX_QUANTITY, 1.0)
    return items, counts


@lru_cache(maxsize=256)
def _party_arrays(block: bytes, opponent: int) -> tuple[Numbers, Numbers, Shares]:
    """Return creatures (7,), moves (24,) and facts of the party (96,); 0 for an empty place."""
    species = np.zeros(ram.PARTY_SIZE + 1, np.int16)
    species[-1] = opponent
    moves = np.zeros((ram.PARTY_SIZE, MOVES), np.int16)
    facts = np.zeros((ram.PARTY_SIZE, FACTS), np.float32)
    for slot, member in enumerate(parse_party(block)):
        species[slot] = member.species
        moves[slot] = list(member.moves)
        facts[slot] = _member_facts(member)
    return species, moves.ravel(), facts.ravel()


def _member_facts(member: Creature) -> list[float]:
    stats = (member.attack, member.defense, member.speed, member.special)
    return [
        member.level / ram.MAX_LEVEL,
        fraction(member.hp, member.max_hp),
        min(member.max_hp / _LARGEST_HP, 1.0),
        *[min(stat / _LARGEST_STAT, 1.0) for stat in stats],
        member.status & _ASLEEP > 0,
        *[member.status & bit > 0 for bit in _STATUS],
        *[uses / _MAX_USES for uses in member.pp],
    ]


def visited_mask(progress: Progress, visited: VisitedCells) -> NDArray[np.uint8]:
    """Return (72, 80) uint8: 255 on the visited cells in sight, 8x8 pixels each.

    All 0 in a battle. The picture may begin within a cell, as the game scrolls by pixels.
    """
    if progress.battle:
        return _NOTHING
    above, left = -(-progress.screen_y // _FULL_CELL), -(-progress.screen_x // _FULL_CELL)
    window = visited.window(progress.map_id, progress.y - above, progress.x - left).tobytes()
    down = (above * _FULL_CELL - progress.screen_y) // 2
    right = (left * _FULL_CELL - progress.screen_x) // 2
    return _mask(window, down, right)


@lru_cache(maxsize=64)
def _mask(window: bytes, down: int, right: int) -> NDArray[np.uint8]:
    """Return a window's cells as pixels (72, 80), from line `down` and column `right` on."""
    bands = [_band(window[first : first + COLUMNS]) for first in range(0, len(window), COLUMNS)]
    whole = np.frombuffer(b"".join(bands), np.uint8).reshape(ROWS * _CELL, COLUMNS * _CELL)
    return whole[down : down + HEIGHT, right : right + WIDTH].copy()


@lru_cache(maxsize=2048)
def _band(cells: bytes) -> bytes:
    """Draw a row of cells (0 or 1 each) as eight lines of pixels; 2,048 different rows exist."""
    line = b"".join([(b"\xff" if cell else b"\0") * _CELL for cell in cells])
    return line * _CELL


@lru_cache(maxsize=256)
def packed_events(events: int) -> NDArray[np.uint8]:
    """Return (320,) uint8, the event bytes as the game packs them, without NEVER_OBSERVED."""
    visible = events & _KNOWN
    return np.frombuffer(visible.to_bytes(ram.EVENT_BYTES, "little"), np.uint8)


def scalars(progress: Progress) -> NDArray[np.float32]:
    """Return (25,) float32 in [0, 1].

    8 badges, facing (2 bits), on a bicycle, surfing, battle (wild, trainer), a safari battle, a
    text, the opponent's level and HP bar, number of digits of the money, safari steps left,
    darkness, Strength on; and four facts of the story without an event flag: the drink given, the
    gift in Silph taken, the rival on the ship beaten, the hideout's guard gone.
    """
    shares = _BAR * progress.enemy_hp, progress.money, progress.safari_steps, progress.enemy_level
    return _scalars(_SHOWN(progress.image), progress.battle, *shares)


@lru_cache(maxsize=512)
def _scalars(
    shown: tuple[int, ...], battle: int, bar: float, money: int, safari_steps: int, enemy_level: int
) -> NDArray[np.float32]:
    badges, facing, riding, kind, font, dark, flags_1, flags_4, ship, guard = shown
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
_WRITTEN: Final = (
    *("visited", "scalars", "events", "map", "bag", "counts", "creatures", "moves", "party"),
)
"""The arrays of an observation without the screen, in the order of `ObservationWriter.write`."""
_NOTHING: Final = np.zeros((HEIGHT, WIDTH), np.uint8)
_ARRAYS: Final = [
    (name, box.shape or (), np.dtype(box.dtype)) for name, box in observation_space().items()
]
