"""Pure: what is in the bag, and which items the story needs.

Owns the numbers of items. Items are handed over, used up and thrown away: what was ever had is kept
by whoever joins the moments' `item_bits`, so that nobody is charged for delivering a parcel.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.memory import Image, byte, span

CARD_KEY: Final = 0x30
SILPH_SCOPE: Final = 0x48
FLUTE: Final = 0x49
LIFT_KEY: Final = 0x4A
HM_SURF: Final = 0xC6
HM_STRENGTH: Final = 0xC7

_KEY_ITEMS: Final = dict(
    (
        *((0x05, "town map"), (0x06, "bicycle"), (0x09, "pokedex"), (0x1F, "old amber")),
        *((0x29, "dome fossil"), (0x2A, "helix fossil"), (0x2B, "secret key")),
        *((0x2D, "bike voucher"), (0x30, "card key"), (0x3C, "fresh water"), (0x3D, "soda pop")),
        *((0x3E, "lemonade"), (0x3F, "ship's ticket"), (0x40, "gold teeth"), (0x45, "coin case")),
        *((0x46, "parcel"), (0x47, "item finder"), (0x48, "silph scope"), (0x49, "flute")),
        *((0x4A, "lift key"), (0x4B, "exp all"), (0x4C, "old rod"), (0x4D, "good rod")),
        (0x4E, "super rod"),
    )
)
_FIRST_HM, _FIRST_TM, _LAST_TM = 0xC4, 0xC9, 0xFA
REQUIRED_ITEMS: Final = frozenset(
    (0x46, 0x3F, 0xC4, LIFT_KEY, SILPH_SCOPE, FLUTE, CARD_KEY, 0x40, HM_SURF, HM_STRENGTH, 0x2B)
)
"""Parcel, ticket, Cut, lift key, scope, flute, card key, teeth, Surf, Strength, secret key."""
REQUIRED_BITS: Final = sum(1 << item for item in REQUIRED_ITEMS)
HM_BITS: Final = sum(1 << item for item in range(_FIRST_HM, _FIRST_TM))


def read_bag(image: Image) -> tuple[tuple[int, int], ...]:
    """Pairs of item and quantity, in the bag's order, as many as its count says (at most 20)."""
    return pairs(image, ram.BAG_COUNT, ram.BAG, ram.BAG_SIZE)


def pairs(image: Image, count: int, first: int, most: int) -> tuple[tuple[int, int], ...]:
    """The list at `first` of as many pairs as the byte at `count` says: the bag, or the PC's."""
    listed = span(image, first, 2 * min(byte(image, count), most))
    return tuple(zip(listed[::2], listed[1::2], strict=True))


def item_bits(image: Image) -> int:
    """Bit n is set while item n is in the bag; who joins these bits over time has `ever had` it."""
    count = min(byte(image, ram.BAG_COUNT), ram.BAG_SIZE)
    return _bits(bytes(span(image, ram.BAG, 2 * count)))


@lru_cache(maxsize=256)
def _bits(listed: bytes) -> int:
    bits = 0
    for item in listed[::2]:
        bits |= 1 << item
    return bits


def is_kept(item: int) -> bool:
    """Whether the story may still ask for it: key items, drinks for the guards, HMs."""
    return item in _KEY_ITEMS or _FIRST_HM <= item < _FIRST_TM


def item_name(item: int) -> str:
    """What people call a key item or a machine; "item 20" for others."""
    if _FIRST_HM <= item < _FIRST_TM:
        return f"HM{item - _FIRST_HM + 1:02}"
    if _FIRST_TM <= item <= _LAST_TM:
        return f"TM{item - _FIRST_TM + 1:02}"
    return _KEY_ITEMS.get(item, f"item {item}")
