"""Pure. Reads numbers and flags from an image of the work RAM (8,192 bytes from 0xC000).

Numbers of several bytes are big-endian, money and coins are packed decimals, and flag 0 of a byte
is its least significant bit.
"""

from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter

from Daddy.pokemon import ram_map as ram

Image = bytes | bytearray


def byte(image: Image, address: int) -> int:
    """Return the byte at an address."""
    return image[address - ram.RAM_START]


def bytes_at(*addresses: int) -> Callable[[Image], tuple[int, ...]]:
    """Make a function that reads several bytes of an image at once, faster than several `byte`."""
    return itemgetter(*[address - ram.RAM_START for address in addresses])


def word(image: Image, address: int) -> int:
    """Return a big-endian number of two bytes."""
    start = address - ram.RAM_START
    return image[start] << 8 | image[start + 1]


def span(image: Image, address: int, length: int) -> Image:
    """Return `length` bytes from an address on."""
    start = address - ram.RAM_START
    return image[start : start + length]


def bits(image: Image, address: int, length: int) -> int:
    """Return a block of flags as one integer: flag n of the block is bit n."""
    return int.from_bytes(span(image, address, length), "little")


@lru_cache(maxsize=1024)
def bit_set(listed: bytes) -> int:
    """Return an integer whose bit n is set if n is among these bytes."""
    flags = 0
    for number in listed:
        flags |= 1 << number
    return flags


def packed_decimal(data: Image) -> int:
    """Decode two decimal digits per byte, big-endian: the bytes 0x12 0x34 are 1234."""
    value = 0
    for pair in data:
        value = value * 100 + (pair >> 4) * 10 + (pair & 15)
    return value
