"""Pure: the bag and the party as arrays, the way their menus show them.

Equal bytes give the same arrays (not to be written to): they change in few of the steps.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.memory import Image
from Daddy.pokemon.party import BLOCK, Creature, members
from Daddy.pokemon.progress import fraction

Numbers = NDArray[np.int16]
Shares = NDArray[np.float32]

MOVES: Final = 4
FACTS: Final = 16
"""Of each member: level, HP, largest HP, attack, defense, speed, special, asleep, poisoned, burnt,
frozen, paralysed, and how often each of four moves can still be used."""
_MOST: Final = 99
_LARGEST_HP: Final = 703
_LARGEST_STAT: Final = 999
_MOST_USES: Final = 63
_ASLEEP: Final = 0b111
_STATUS: Final = (1 << 3, 1 << 4, 1 << 5, 1 << 6)
_BAG: Final = slice(ram.BAG_COUNT - ram.RAM_START, ram.BAG + 2 * ram.BAG_SIZE - ram.RAM_START)


def bag(image: Image) -> tuple[Numbers, Shares]:
    """Items (20,) int16 in the bag's order, 0 where there is none, and how many of 99 (20,)."""
    return _bag(bytes(image[_BAG]))


@lru_cache(maxsize=256)
def _bag(block: bytes) -> tuple[Numbers, Shares]:
    many = min(block[0], ram.BAG_SIZE)
    listed = np.frombuffer(block, np.uint8, 2 * many, 1)
    items, counts = np.zeros(ram.BAG_SIZE, np.int16), np.zeros(ram.BAG_SIZE, np.float32)
    items[:many] = listed[::2]
    counts[:many] = np.minimum(listed[1::2] / _MOST, 1.0)
    return items, counts


def party(image: Image) -> tuple[Numbers, Numbers, Shares]:
    """Species (6,), moves (24,) and facts (96,) of the members; 0 where there is none."""
    return _party(bytes(image[BLOCK]))


@lru_cache(maxsize=256)
def _party(block: bytes) -> tuple[Numbers, Numbers, Shares]:
    species = np.zeros(ram.PARTY_SIZE, np.int16)
    moves = np.zeros((ram.PARTY_SIZE, MOVES), np.int16)
    facts = np.zeros((ram.PARTY_SIZE, FACTS), np.float32)
    for slot, one in enumerate(members(block)):
        species[slot] = one.species
        moves[slot] = list(one.moves)
        facts[slot] = _facts(one)
    return species, moves.ravel(), facts.ravel()


def _facts(one: Creature) -> list[float]:
    stats = (one.attack, one.defense, one.speed, one.special)
    return [
        one.level / ram.MAX_LEVEL,
        fraction(one.hp, one.max_hp),
        min(one.max_hp / _LARGEST_HP, 1.0),
        *[min(stat / _LARGEST_STAT, 1.0) for stat in stats],
        one.status & _ASLEEP > 0,
        *[one.status & bit > 0 for bit in _STATUS],
        *[uses / _MOST_USES for uses in one.pp],
    ]
