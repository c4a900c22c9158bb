"""Delete all but the newest backups of a folder."""

import sys
from pathlib import Path


def main(folder: str, keep: str) -> None:
    """Delete files and print their names."""
    names = sorted(path.name for path in Path(folder).iterdir())
    for name in names[: -int(keep) - 1]:
        (Path(folder) / name).unlink()
        print(name)


main(*sys.argv[1:])
