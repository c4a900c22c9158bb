"""Assembles `source/`, and makes the module of the symbols that the package uses."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from string import capwords
from textwrap import fill
from typing import Final

from Daddy.pokemon.find_rom import cartridge_path
from Daddy.pokemon.ram_map import EVENTS
from scripts.cartridge.assembler import Assembler
from scripts.cartridge.header import with_header
from scripts.cartridge.player import QUEST
from scripts.cartridge.symbols import MAPS, STORY

SOURCE: Final = Path(__file__).resolve().parent / "source"
OUTPUT: Final = cartridge_path().parent
LEAN: Final = {"BUSY_WORK": 1}
"""Constants of the lean game: the same memory after the same buttons, with less CPU load."""
_MODULE: Final = '''\
"""Pure. Lists events and maps of the free cartridge; written by ``python -m scripts.cartridge``."""

from typing import Final

STORY: Final = (
{events}
)  # fmt: skip
"""Events in the order of the story: name, number of the event flag, map, whether it is required."""
MAPS: Final = {{
{maps}
}}  # fmt: skip
"""Names by map number."""
'''


def build(constants: Mapping[str, int] | None = None) -> tuple[bytes, dict[str, int]]:
    """Assemble ``source/``; return the image and its symbols (name → address or value).

    `constants` override those of the source; ``AsmError`` for one that the source does not have.
    """
    names = {path.relative_to(SOURCE).as_posix(): path for path in SOURCE.rglob("*.asm")}
    sources = {name: path.read_text(encoding="ascii") for name, path in names.items()}
    assembler = Assembler(sources, "main.asm", constants)
    return with_header(assembler.assemble()), assembler.symbols


def symbol_module() -> str:
    """Return the text of ``Daddy/pokemon/cartridge/free_cartridge_tables.py``."""
    events = (
        f'("{flag.name.lower()}", 0x{8 * (flag.address - EVENTS) + flag.bit:03X}, '
        f"{QUEST[flag.name].map}, {flag.required}),"
        for flag in STORY
    )
    maps = (f'{place.number}: "{capwords(place.name)}",' for place in MAPS)
    return _MODULE.format(events=_wrapped(events), maps=_wrapped(maps))


def _wrapped(entries: Iterable[str]) -> str:
    """Fill lines of up to 100 columns with entries, without breaking an entry."""
    text = " ".join(entry.replace(" ", "\0") for entry in entries)
    indent = " " * 4
    wrapped = fill(text, 100, initial_indent=indent, subsequent_indent=indent,
                   break_long_words=False, break_on_hyphens=False)  # fmt: skip
    return wrapped.replace("\0", " ")
