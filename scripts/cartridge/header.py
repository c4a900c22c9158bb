"""Pure. Fills in the cartridge header: title, kind, sizes and both checksums.

The logo field of a licensed cartridge stays empty, as those bytes are not ours. The emulator's boot
program does not check them; a real console's would.
"""

TITLE = b"DADDY"
KIND = 0x13  # MBC3 + RAM + battery, as the real game, so that save states have the same layout
RAM_SIZE = 0x03  # 32 KiB


def with_header(image: bytes) -> bytes:
    """Return ``image`` with the header of 0x134-0x14F filled in."""
    rom = bytearray(image)
    rom[0x134:0x144] = TITLE.ljust(16, b"\0")
    rom[0x147], rom[0x148], rom[0x149], rom[0x14A] = KIND, 0, RAM_SIZE, 1
    rom[0x14D] = header_checksum(rom)
    rom[0x14E:0x150] = b"\0\0"
    rom[0x14E:0x150] = (sum(rom) & 0xFFFF).to_bytes(2, "big")
    return bytes(rom)


def header_checksum(rom: bytes | bytearray) -> int:
    """Compute the checksum of 0x134-0x14C that every boot program checks."""
    total = 0
    for byte in rom[0x134:0x14D]:
        total = total - byte - 1 & 0xFF
    return total
