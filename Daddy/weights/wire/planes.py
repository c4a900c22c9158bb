"""Pure: 16-bit numbers rearranged so that the bytes that repeat stand together. No torch.

All numbers of a tensor are one big integer whose 16-bit lanes masks keep apart: as fast as arrays,
on a laptop that has loaded none. Numbers are little-endian, so every ``bytes`` here has an even
length. Each function has an inverse, bit for bit: what the numbers mean does not matter.
"""

from __future__ import annotations


def split(data: bytes) -> tuple[bytes, bytes]:
    """The low bytes of all numbers, and their high bytes."""
    return data[0::2], data[1::2]


def join(low: bytes, high: bytes) -> bytes:
    """What :func:`split` took apart."""
    data = bytearray(len(low) + len(high))
    data[0::2], data[1::2] = low, high
    return bytes(data)


def turn(data: bytes) -> bytes:
    """Each number with its highest bit moved to the lowest place.

    A bfloat16's exponent then fills the high byte, which takes a dozen values in a layer of
    weights; sign and mantissa, which are as good as random, the low one.
    """
    numbers, one = _number(data), _lanes(0x0001, data)
    return _bytes((numbers >> 15 & one) | (numbers & _lanes(0x7FFF, data)) << 1, data)


def turn_back(data: bytes) -> bytes:
    """The inverse of :func:`turn`."""
    numbers, one = _number(data), _lanes(0x0001, data)
    return _bytes((numbers & one) << 15 | (numbers >> 1 & _lanes(0x7FFF, data)), data)


def is_finite(data: bytes) -> bool:
    """Whether every bfloat16 in ``data``, as :func:`turn` gave it, is a finite number."""
    return b"\xff" not in data[1::2]


def step(after: bytes, before: bytes) -> bytes:
    """From ``before`` to ``after`` modulo 2^16; steps 0, -1, 1, -2, ... become 0, 1, 2, 3, ...

    Between two versions of a weight the low byte of it is mostly all that is not zero.
    """
    top, rest = _lanes(0x8000, after), _lanes(0x7FFF, after)
    new, old = _number(after), _number(before)
    gap = ((new | top) - (old & rest)) ^ (~(new ^ old) & top)
    return _bytes((gap & rest) << 1 ^ _filled(gap >> 15, after), after)


def walk(before: bytes, steps: bytes) -> bytes:
    """The inverse of :func:`step`: ``after`` again."""
    top, rest = _lanes(0x8000, before), _lanes(0x7FFF, before)
    old, zigzag = _number(before), _number(steps)
    gap = (zigzag >> 1 & rest) ^ _filled(zigzag, before)
    return _bytes(((old & rest) + (gap & rest)) ^ (old ^ gap) & top, before)


def _filled(numbers: int, like: bytes) -> int:
    """0xFFFF in every lane whose lowest bit is set, 0 in the others."""
    odd = numbers & _lanes(0x0001, like)
    return (odd << 16) - odd


def _lanes(number: int, like: bytes) -> int:
    return int.from_bytes(number.to_bytes(2, "little") * (len(like) // 2), "little")


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _bytes(numbers: int, like: bytes) -> bytes:
    return numbers.to_bytes(len(like), "little")
