"""Build the cartridge from its source, or check that the committed image is what the source says.

``python -m Daddy.pokemon.cartridge.build`` writes ``daddy.gb``; ``--check`` writes nothing and
exits with 1 when the committed bytes differ.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from Daddy.core.files import write_atomic
from Daddy.pokemon.cartridge.assembler import Assembler
from Daddy.pokemon.cartridge.header import with_header

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "source"


def cartridge_path() -> Path:
    """Path of the committed 32 KiB ROM image inside the package."""
    return HERE / "daddy.gb"


def build() -> tuple[bytes, dict[str, int]]:
    """Assemble ``source/``: the image and its symbols (name → address or value)."""
    names = {path.relative_to(SOURCE).as_posix(): path for path in SOURCE.rglob("*.asm")}
    sources = {name: path.read_text(encoding="ascii") for name, path in names.items()}
    assembler = Assembler(sources, "main.asm")
    return with_header(assembler.assemble()), assembler.symbols


def main(argv: list[str] | None = None) -> int:
    """Entry: 0 done (or equal), 1 the committed image differs from its source."""
    parser = argparse.ArgumentParser(prog="build", description="Assemble the free cartridge.")
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    check = parser.parse_args(argv).check
    image, symbols = build()
    if check:
        same = image == cartridge_path().read_bytes()
        print("daddy.gb is what the source says" if same else "daddy.gb differs from its source")
        return 0 if same else 1
    write_atomic(cartridge_path(), image)
    print(f"{cartridge_path().name}: {len(image)} bytes, {len(symbols)} symbols")
    return 0


if __name__ == "__main__":
    sys.exit(main())
