"""Pure. Reads numbers and flags from an image of the work RAM (8,192 bytes from 0xC000).

Numbers of several bytes begin with the highest, money and coins
are packed decimals, the first flag of a byte is its least significant bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter

from Daddy.pokemon import ram_map as ram

Image = bytes | bytearray


def byte(image: Image, address: int) -> int:
    """The byte at an address."""
    return image[address - ram.RAM_START]


def bytes_at(*addresses: int) -> Callable[[Image], tuple[int, ...]]:
    """A function that reads several bytes of an image at once, much faster than one by one."""
    return itemgetter(*[address - ram.RAM_START for address in addresses])


def word(image: Image, address: int) -> int:
    """Two bytes, the high one first."""
    start = address - ram.RAM_START
    return image[start] << 8 | image[start + 1]


def span(image: Image, address: int, length: int) -> Image:
    """`length` bytes from an address on."""
    start = address - ram.RAM_START
    return image[start : start + length]


def bits(image: Image, address: int, length: int) -> int:
    """Flags as one integer: flag n of the block is bit n."""
    return int.from_bytes(span(image, address, length), "little")


@lru_cache(maxsize=1024)
def bit_set(listed: bytes) -> int:
    """Bit n is set where n is among these bytes."""
    found = 0
    for number in listed:
        found |= 1 << number
    return found


def packed_decimal(data: Image) -> int:
    """Two decimal digits a byte, most significant first: the bytes 0x12 0x34 are 1234."""
    value = 0
    for pair in data:
        value = value * 100 + (pair >> 4) * 10 + (pair & 15)
    return value
