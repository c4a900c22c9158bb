"""Pure. Tells files of save states and battery RAM apart, and finds the work RAM in a PyBoy state.

A PyBoy state begins with its format's number. Its size and the place of its work RAM depend on the
format and on the cartridge. `_LAYOUTS` has those of cartridges with 32 KiB of battery RAM, such as
Red, Blue and the free cartridge, from states that these versions of PyBoy wrote.
"""

from typing import Final

from Daddy.pokemon.memory_decoding import Image
from Daddy.pokemon.ram_map import RAM_SIZE

BATTERY_BYTES: Final = 32 * 1024
"""Size of the RAM that a battery keeps in a cartridge of Red or Blue."""
_CLOCK_BYTES: Final = (0, 44, 48)
"""Sizes of a clock's record that emulators append to the battery RAM."""
_LAYOUTS: Final = {
    (4, 50_413): 9_097,  # 1.0
    (5, 50_421): 9_097,  # 1.3
    (6, 142_584): 101_261,  # 1.4.0
    (7, 142_586): 101_261,  # 1.4.7
    (8, 142_610): 101_285,  # 1.5.0
    (9, 142_610): 101_285,  # 1.5.6 to 1.6.14
    (10, 165_650): 124_325,  # 2.0 to 2.2.0
    (11, 165_650): 124_325,  # 2.2.2 and 2.3
    (12, 165_674): 124_341,  # 2.4
    (14, 167_640): 126_299,  # 2.5
    (15, 167_676): 126_299,  # 2.6
    (15, 167_677): 126_300,  # 2.7
    (29, 178_100): 126_394,  # 2.8.1
}
"""Format and size in bytes of a state → offset of its work RAM; beside it, the PyBoy versions."""
_SAVE_IN_GAME: Final = "save inside the game there, and give the battery save (.sav, .srm)"
_FOREIGN: Final = {
    b"\x1f\x8b": f"a gzip archive, as VisualBoyAdvance writes its states: {_SAVE_IN_GAME}, "
    "or unpack it with gunzip if a PyBoy state or a battery save is in it",
    b"PK\x03\x04": "a zip archive: unpack it, and give the file in it",
    b"#RZIPv": "a compressed file of RetroArch: switch the compression of saves off in its saving "
    "settings, save inside the game, and give the .srm file",
    b"RASTATE": f"a save state of RetroArch: {_SAVE_IN_GAME}",
    b"\x89PNG": f"a picture; mGBA keeps its save states in such files: {_SAVE_IN_GAME}",
}
"""First bytes of files of other programs → description, and the remedy."""
_MGBA: Final = b"\x00\x40\x00"
"""Upper three bytes of the number, little-endian, with which a state of mGBA's Game Boy begins."""
_BESS: Final = b"BESS"
"""Last bytes of states in the common format of SameBoy, BGB and others."""


def foreign_format(data: bytes) -> str | None:
    """Return a description and a remedy if another program's header is in `data`, or None."""
    if (data[:1], len(data)) in {(bytes([number]), size) for number, size in _LAYOUTS}:
        return None
    for head, text in _FOREIGN.items():
        if data.startswith(head):
            return f"it is {text}"
    if data[-4:] == _BESS:
        return f"it is a save state of SameBoy, BGB or another emulator: {_SAVE_IN_GAME}"
    if data[1:4] == _MGBA:
        return f"it is a save state of mGBA: {_SAVE_IN_GAME}"
    return None


def battery_ram(data: bytes) -> bytes | None:
    """Return the battery RAM, 32,768 bytes, if `data` has the size of a battery save; or None."""
    if len(data) - BATTERY_BYTES not in _CLOCK_BYTES or foreign_format(data):
        return None
    return data[:BATTERY_BYTES]


def work_ram(data: bytes) -> Image:
    """Return the work RAM, 8,192 bytes, of a PyBoy state. ValueError for an unknown layout."""
    offset = _LAYOUTS.get((data[0], len(data))) if data else None
    if offset is not None:
        return data[offset : offset + RAM_SIZE]
    if foreign := foreign_format(data):
        raise ValueError(foreign)
    sizes = [f"{size:,}" for number, size in _LAYOUTS if data and number == data[0]]
    if not sizes:
        known = ", ".join(map(str, sorted({number for number, _ in _LAYOUTS})))
        raise ValueError(
            f"it has {len(data):,} bytes and begins with {data[0] if data else 'nothing'}: "
            f"no format of a PyBoy state that is read here ({known})"
        )
    raise ValueError(
        f"it has {len(data):,} bytes, but a PyBoy state of format {data[0]} of Red or Blue has "
        f"{' or '.join(sizes)}: it is damaged, or of another game"
    )
