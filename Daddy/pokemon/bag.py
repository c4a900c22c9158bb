"""Pure. Reads the bag, and names the items that the story needs."""

from typing import Final

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.memory_decoding import Image, bit_set, byte, span

CARD_KEY: Final = 0x30
SILPH_SCOPE: Final = 0x48
FLUTE: Final = 0x49
LIFT_KEY: Final = 0x4A
HM_SURF: Final = 0xC6
HM_STRENGTH: Final = 0xC7

_KEY_ITEMS: Final = frozenset(
    bytes.fromhex("05 06 09 1f 29 2a 2b 2d 30 3c 3d 3e 3f 40 45 46 47 48 49 4a 4b 4c 4d 4e")
)
_FIRST_HM, _FIRST_TM = 0xC4, 0xC9
REQUIRED_ITEMS: Final = frozenset(
    (0x46, 0x3F, 0xC4, LIFT_KEY, SILPH_SCOPE, FLUTE, CARD_KEY, 0x40, HM_SURF, HM_STRENGTH, 0x2B)
)
"""Parcel, ticket, HM Cut, lift key, scope, flute, card key, teeth, Surf, Strength, secret key."""
REQUIRED_BITS: Final = sum(1 << item for item in REQUIRED_ITEMS)
HM_BITS: Final = sum(1 << item for item in range(_FIRST_HM, _FIRST_TM))


def read_item_pairs(image: Image, count: int, first: int, most: int) -> tuple[tuple[int, int], ...]:
    """Return pairs from address `first` on, as many as the byte at address `count`, max `most`."""
    listed = span(image, first, 2 * min(byte(image, count), most))
    return tuple(zip(listed[::2], listed[1::2], strict=True))


def item_bits(image: Image) -> int:
    """Return an integer whose bit n is set if item n is in the bag."""
    count = min(byte(image, ram.BAG_COUNT), ram.BAG_SIZE)
    return bit_set(bytes(span(image, ram.BAG, 2 * count)[::2]))


def is_story_item(item: int) -> bool:
    """Return True for an item that the story may need: key items, drinks for the guards, HMs."""
    return item in _KEY_ITEMS or _FIRST_HM <= item < _FIRST_TM
