"""Identifies a game file by its SHA-1, or refuses it with the reason.

The controller uses the list of known games too, so that `start` refuses a wrong file before a job
waits in the queue for it. Unknown games are refused because memory addresses differ between games.
No file of the real game is, or may be, part of this project.
"""

import hashlib
import warnings
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.errors import RomError

ENVIRONMENT_VARIABLE = "DADDY_ROM"
CARTRIDGE_SHA1 = "80aca331e0f09159255fc4181ad55370bac913c0"
LEAN_CARTRIDGE_SHA1 = "3369fb27cfe153bda2d84d063c86df485b76a07c"
"""Our own game, and a build of it without its busy loops (``scripts.cartridge.build --lean``).

Tests compare both with the images that the source assembles to.
"""
RED_SHA1 = "ea9bcae617fdf159b045185467ae58b2e4a48b9a"
BLUE_SHA1 = "d7037c83e1ae5b39bde3c30787637ba1d4c48ce2"
YELLOW_SHA1 = "cc7d03262ebfaf2f06772c1a480c7d9d5f4a38e1"
_HEADER_TITLE = slice(0x134, 0x143)
_SMALLEST_ROM, _LARGEST_ROM = 32 * 1024, 8 * 1024 * 1024
_OURS = {
    CARTRIDGE_SHA1: "Daddy cartridge",
    LEAN_CARTRIDGE_SHA1: "Daddy cartridge without busy work",
}
_KNOWN = {RED_SHA1: "Pokémon Red", BLUE_SHA1: "Pokémon Blue"}
_TITLES = {b"POKEMON RED": RED_SHA1, b"POKEMON BLUE": BLUE_SHA1}
"""Titles in the header. Translated and patched games keep them."""


@dataclass(frozen=True, slots=True)
class Rom:
    """One identified game and its bytes; `real` is True for Red and Blue, also if modified."""

    name: str
    sha1: str
    data: bytes
    real: bool


def load_rom(path: Path, allow_unknown: bool = False) -> Rom:
    """Read and identify a game file.

    Raises RomError when it is missing, no Game Boy game, Yellow, or unknown. With `allow_unknown`
    an unknown game is accepted with a warning; with the header title of Red or Blue it is `real`.
    """
    data = _read(path)
    sha1 = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    if sha1 in _KNOWN:
        return Rom(_KNOWN[sha1], sha1, data, real=True)
    if sha1 in _OURS:
        return Rom(_OURS[sha1], sha1, data, real=False)
    if sha1 == YELLOW_SHA1 or b"YELLOW" in data[_HEADER_TITLE]:
        raise RomError(
            f"{path} is Pokémon Yellow, whose memory addresses differ from those of Red",
            "use PokemonRed.gb or PokemonBlue.gb",
        )
    return _unknown(path, data, sha1, allow_unknown)


def _unknown(path: Path, data: bytes, sha1: str, allow: bool) -> Rom:
    if not allow:
        raise RomError(
            f"{path} is not a game we know (SHA-1 {sha1}; Pokémon Red is {RED_SHA1})",
            "use an unmodified PokemonRed.gb, or pass --allow-unknown-rom (for run_controller set "
            "training.allow_unknown_rom)",
        )
    original = _TITLES.get(data[_HEADER_TITLE].rstrip(b"\0"))
    kind = f"a modified {_KNOWN[original]}" if original else "an unknown game"
    warnings.warn(
        f"playing {kind}: {path} (SHA-1 {sha1}); its rewards and progress may be wrong",
        stacklevel=3,
    )
    name = f"{_KNOWN[original]}, modified ({sha1[:8]})" if original else f"unknown {sha1[:8]}"
    return Rom(name, sha1, data, real=original is not None)


def _read(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        data = path.read_bytes() if _SMALLEST_ROM <= size <= _LARGEST_ROM else b""
    except OSError as error:
        raise RomError(
            f"cannot read the ROM {path}: {error.strerror}",
            f"give the path of your PokemonRed.gb (training.rom or {ENVIRONMENT_VARIABLE}), "
            "or none for the free cartridge",
        ) from error
    if not data:
        raise RomError(
            f"{path} is no Game Boy game: {size} bytes, where 32 KiB to 8 MiB are possible",
            "check the file; an unmodified PokemonRed.gb has 1,048,576 bytes",
        )
    return data
