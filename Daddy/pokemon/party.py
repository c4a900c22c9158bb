"""Pure. Reads the party's members, 44 bytes each, and names the moves used outside battles."""

from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.memory_decoding import Image

CUT, FLY, SURF, STRENGTH, FLASH = FIELD_MOVES = (0x0F, 0x13, 0x39, 0x46, 0x94)
"""Numbers of the moves that are used outside battles too."""
_FIELDS: Final = Struct(">BHxB2sx4s2x3s12x4sBHHHHH")


class Creature(NamedTuple):
    """Holds one party member, in the order of its bytes; its level is 1 to 100."""

    species: int
    hp: int
    status: int
    """Bits 0 to 2: turns of sleep left; 3 poisoned, 4 burnt, 5 frozen, 6 paralysed."""
    types: bytes
    moves: bytes
    """Four numbers of moves, 0 for an empty slot."""
    experience_bytes: bytes
    pp_bytes: bytes
    """One byte per move: uses left (PP, 6 bits), and the number of its PP upgrades (2 bits)."""
    level: int
    max_hp: int
    attack: int
    defense: int
    speed: int
    special: int

    @property
    def pp(self) -> tuple[int, ...]:
        """Uses left of each move."""
        return tuple(count & 0x3F for count in self.pp_bytes)


BLOCK: Final = slice(
    ram.PARTY_COUNT - ram.RAM_START,
    ram.PARTY_MONS - ram.RAM_START + ram.PARTY_SIZE * ram.PARTY_STRIDE,
)
"""Slice of the party in an image: its count, its list of species, its members."""


def read_party(image: Image) -> tuple[Creature, ...]:
    """Return the party's members, as many as its count byte says; later bytes are stale.

    Equal bytes give the same tuple object, so that `is` tells if anything has changed.
    """
    return parse_party(bytes(image[BLOCK]))


@lru_cache(maxsize=256)
def parse_party(block: bytes) -> tuple[Creature, ...]:
    """Return the members in `block`, the bytes `BLOCK` of an image; see `read_party`."""
    return tuple([_member(block, slot) for slot in range(min(block[0], ram.PARTY_SIZE))])


def _member(block: bytes, slot: int) -> Creature:
    start = ram.PARTY_MONS - ram.PARTY_COUNT + slot * ram.PARTY_STRIDE
    member = Creature._make(_FIELDS.unpack_from(block, start))
    return member if member.level <= ram.MAX_LEVEL else member._replace(level=ram.MAX_LEVEL)
