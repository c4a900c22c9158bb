"""Makes a ROM with the real game's header, mapper, 64 banks and 32 KiB of cartridge RAM.

It has none of the real game's bytes. Its program writes the first byte of every bank to the work
RAM and then only waits, so that bytes which a test writes into the memory stay there.
"""

from scripts.cartridge.header import header_checksum

BANKS = 64
BANK_SIZE = 16 * 1024
NOTES = 0xC800
"""Address to which the first bytes of banks 1 to 63 are written."""
_KIND, _SIZE, _RAM = 0x13, 0x05, 0x03  # MBC3 + RAM + battery, 1 MiB, 32 KiB
_PROGRAM = bytes.fromhex(
    "f3 31 fe df 0e 01 21 00 c8"  # no interrupts, a stack, bank 1, hl = NOTES
    "79 ea 00 20 fa 00 40 22 0c 79 fe 40 20 f2"  # every bank's first byte into [hl+]
    "3e 01 e0 ff fb 76 00 18 fc"  # then sleep from picture to picture
)
_RETURN = 0xD9


def mark(bank: int) -> int:
    """Return the first byte of a bank."""
    return bank * 5 + 1 & 0xFF


def lookalike(title: bytes = b"POKEMON RED") -> bytes:
    """Make the ROM, 1,048,576 bytes."""
    rom = bytearray(BANKS * BANK_SIZE)
    for bank in range(1, BANKS):
        rom[bank * BANK_SIZE] = mark(bank)
    rom[0x40] = _RETURN
    rom[0x100:0x104] = bytes.fromhex("00 c3 50 01")
    rom[0x134:0x144] = title.ljust(16, b"\0")
    rom[0x147], rom[0x148], rom[0x149] = _KIND, _SIZE, _RAM
    rom[0x14D] = header_checksum(rom)
    rom[0x150 : 0x150 + len(_PROGRAM)] = _PROGRAM
    return bytes(rom)
