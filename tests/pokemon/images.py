"""Makes images of the work RAM byte by byte, for tests of its readers."""

from Daddy.pokemon import ram_map as ram


def image(**values: int) -> bytearray:
    """Make an image with bytes by ram_map's names in lower case, such as image(map_id=40)."""
    data = bytearray(ram.RAM_SIZE)
    for name, value in values.items():
        data[getattr(ram, name.upper()) - ram.RAM_START] = value
    return data


def put(data: bytearray, address: int, *values: int) -> bytearray:
    """Write bytes from an address of the Game Boy on."""
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
