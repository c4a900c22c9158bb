"""Work RAM written by hand, for tests of what reads it."""

from __future__ import annotations

from Daddy.pokemon import ram_map as ram


def image(**values: int) -> bytearray:
    """An image in which ram_map's NAME (in lower case) holds a byte: image(map_id=40)."""
    data = bytearray(ram.RAM_SIZE)
    for name, value in values.items():
        data[getattr(ram, name.upper()) - ram.RAM_START] = value
    return data


def put(data: bytearray, address: int, *values: int) -> bytearray:
    """Write bytes at an address of the Game Boy."""
    data[address - ram.RAM_START : address - ram.RAM_START + len(values)] = bytes(values)
    return data


def creature(
    data: bytearray, slot: int, species: int, hp: int, max_hp: int, level: int
) -> bytearray:
    """Write one party member and count it."""
    start = ram.PARTY_MONS + slot * ram.PARTY_STRIDE
    put(data, start, species, hp >> 8, hp & 255)
    put(data, start + ram.MON_LEVEL, level, max_hp >> 8, max_hp & 255)
    count = data[ram.PARTY_COUNT - ram.RAM_START]
    return put(data, ram.PARTY_COUNT, max(count, slot + 1))
