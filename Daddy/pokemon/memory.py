"""Pure: numbers, flags and letters out of an image of the work RAM (8,192 bytes from 0xC000).

Owns how the game writes them down: numbers of several bytes begin with the highest, money and coins
are packed decimals, the first flag of a byte is its least significant bit.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter

from Daddy.pokemon import ram_map as ram

Image = bytes | bytearray
_END_OF_NAME = 0x50
_LETTERS = {0x7F: " ", 0xE0: "'", 0xE3: "-", 0xE6: "?", 0xE7: "!", 0xE8: ".", 0xF3: "/", 0xF4: ","}
_RUNS = ((0x80, "A"), (0xA0, "a"))
_ZERO = 0xF6


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


def packed_decimal(data: Image) -> int:
    """Two decimal digits a byte, most significant first: the bytes 0x12 0x34 are 1234."""
    value = 0
    for pair in data:
        value = value * 100 + (pair >> 4) * 10 + (pair & 15)
    return value


def letters(data: Image) -> str:
    """A name in the game's own letters, up to its end mark; what is no letter becomes "·"."""
    name = bytes(data).split(bytes([_END_OF_NAME]))[0].rstrip(b"\0")
    return "".join(map(_letter, name))


def _letter(code: int) -> str:
    for first, letter in _RUNS:
        if first <= code < first + 26:
            return chr(ord(letter) + code - first)
    return str(code - _ZERO) if code >= _ZERO else _LETTERS.get(code, "·")
