#!/bin/bash
cat > /app/rotate.py <<'END'
"""Delete all but the newest backups of a folder."""

import re
import sys
from pathlib import Path


def main(folder: str, keep: str) -> None:
    dated = []
    for path in Path(folder).iterdir():
        if found := re.fullmatch(r"backup-(\d\d)-(\d\d)-(\d{4})\.tar", path.name):
            dated.append((found.groups()[::-1], path))
    for _, path in sorted(dated)[: max(0, len(dated) - int(keep))]:
        path.unlink()
        print(path.name)


main(*sys.argv[1:])
END
