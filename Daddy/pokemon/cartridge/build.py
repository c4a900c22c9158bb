"""Build the cartridge from its source, or check that the committed image is what the source says.

``python -m Daddy.pokemon.cartridge.build`` writes ``daddy.gb``; ``--check`` writes nothing and
exits with 1 when the committed bytes differ. ``--lean FILE`` writes the same game without its busy
work there: for those who learn on it and measure no speed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from Daddy.core.files import write_atomic
from Daddy.pokemon.cartridge.assembler import Assembler
from Daddy.pokemon.cartridge.header import with_header

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "source"


def cartridge_path() -> Path:
    """Path of the committed 32 KiB ROM image inside the package."""
    return HERE / "daddy.gb"


LEAN: Final = {"BUSY_WORK": 1}
"""Constants of the lean game: equal memory after equal buttons, at a fraction of the cost."""


def build(constants: Mapping[str, int] | None = None) -> tuple[bytes, dict[str, int]]:
    """Assemble ``source/``: the image and its symbols (name → address or value).

    `constants` take the place of those of the source; ``AsmError`` for one that it does not have.
    """
    names = {path.relative_to(SOURCE).as_posix(): path for path in SOURCE.rglob("*.asm")}
    sources = {name: path.read_text(encoding="ascii") for name, path in names.items()}
    assembler = Assembler(sources, "main.asm", constants)
    return with_header(assembler.assemble()), assembler.symbols


def main(argv: list[str] | None = None) -> int:
    """Entry: 0 done (or equal), 1 the committed image differs from its source."""
    parser = argparse.ArgumentParser(prog="build", description="Assemble the free cartridge.")
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    parser.add_argument("--lean", type=Path, metavar="FILE", help="write it without busy work")
    args = parser.parse_args(argv)
    if args.lean:
        write_atomic(args.lean, build(LEAN)[0])
        return 0
    image, symbols = build()
    if args.check:
        same = image == cartridge_path().read_bytes()
        print("daddy.gb is what the source says" if same else "daddy.gb differs from its source")
        return 0 if same else 1
    write_atomic(cartridge_path(), image)
    print(f"{cartridge_path().name}: {len(image)} bytes, {len(symbols)} symbols")
    return 0


if __name__ == "__main__":
    sys.exit(main())
