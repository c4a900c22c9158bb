"""Pure. Reads the members of the party from their 44 bytes, and names the moves that open ways."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.read_memory import Image

CUT, FLY, SURF, STRENGTH, FLASH = FIELD_MOVES = (0x0F, 0x13, 0x39, 0x46, 0x94)
"""Moves that are used outside battles too, by their numbers."""
_FIELDS: Final = Struct(">BHxB2sx4s2x3s12x4sBHHHHH")


class Creature(NamedTuple):
    """One party member, in the order of its bytes; HP as the game keeps them, level 1 to 100."""

    species: int
    hp: int
    status: int
    """Bits 0 to 2: turns of sleep left; 3 poisoned, 4 burnt, 5 frozen, 6 paralysed."""
    types: bytes
    moves: bytes
    """Four numbers, 0 where there is none."""
    experience_bytes: bytes
    pp_bytes: bytes
    """One for each move: how often it can still be used (6 bits), and how often it was raised."""
    level: int
    max_hp: int
    attack: int
    defense: int
    speed: int
    special: int

    @property
    def pp(self) -> tuple[int, ...]:
        """How often each move can still be used."""
        return tuple(count & 0x3F for count in self.pp_bytes)


BLOCK: Final = slice(
    ram.PARTY_COUNT - ram.RAM_START,
    ram.PARTY_MONS - ram.RAM_START + ram.PARTY_SIZE * ram.PARTY_STRIDE,
)
"""The party in an image: its count, its list of species, its members."""


def read_party(image: Image) -> tuple[Creature, ...]:
    """Members below the count; bytes behind them in memory are stale.

    Equal bytes give the same tuple, so that `is` tells whether anything has changed.
    """
    return parse_party(bytes(image[BLOCK]))


@lru_cache(maxsize=256)
def parse_party(block: bytes) -> tuple[Creature, ...]:
    """As `read_party`, of the image's `BLOCK` alone."""
    return tuple([_member(block, slot) for slot in range(min(block[0], ram.PARTY_SIZE))])


def _member(block: bytes, slot: int) -> Creature:
    start = ram.PARTY_MONS - ram.PARTY_COUNT + slot * ram.PARTY_STRIDE
    member = Creature._make(_FIELDS.unpack_from(block, start))
    return member if member.level <= ram.MAX_LEVEL else member._replace(level=ram.MAX_LEVEL)
