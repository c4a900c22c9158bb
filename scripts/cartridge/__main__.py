"""Builds the cartridge: ``python -m scripts.cartridge`` writes its image and its symbols.

``--check`` writes nothing, and exits with 1 when the committed files differ from the source.
``--lean FILE`` writes the game without the loop that imitates the real game's CPU load: learning is
faster with it, but speed measured with it is not the real game's.
"""

import sys
from pathlib import Path

from Daddy.core.arguments import ArgumentParser
from Daddy.core.atomic_files import write_atomic
from scripts.cartridge.build import LEAN, OUTPUT, build, symbol_module


def main(argv: list[str] | None = None, output: Path = OUTPUT) -> int:
    """Build, or check; return 0, or 1 when a committed file differs from its source."""
    parser = ArgumentParser(prog="cartridge", description="Assemble the free cartridge.")
    parser.add_argument(
        "--check", action="store_true", help="comparison with the committed files only"
    )
    parser.add_argument(
        "--lean", type=Path, metavar="FILE", help="file for the image without imitated CPU load"
    )
    args = parser.parse_args(argv)
    if args.lean:
        write_atomic(args.lean, build(LEAN)[0])
        return 0
    files = {"daddy.gb": build()[0], "free_cartridge_tables.py": symbol_module().encode()}
    if args.check:
        differing = [name for name, data in files.items() if (output / name).read_bytes() != data]
        print(f"{' and '.join(differing)} differ from the source" if differing else "up to date")
        return 1 if differing else 0
    for name, data in files.items():
        write_atomic(output / name, data)
        print(f"{name}: {len(data)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
