"""What a folder takes on the disk. Reads only; what cannot be seen counts nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def disk(root: Path) -> dict[str, dict[str, int]]:
    """Folder below ``root`` → its bytes and files; what lies in ``root`` itself counts as heads."""
    found: dict[str, dict[str, int]] = {}
    with contextlib.suppress(OSError):
        for entry in sorted(os.scandir(root), key=lambda one: one.name):
            name = entry.name if entry.is_dir(follow_symlinks=False) else "heads"
            size, files = size_of(Path(entry.path)) if name == entry.name else (_size(entry), 1)
            kept = found.setdefault(name, {"bytes": 0, "files": 0})
            kept["bytes"] += size
            kept["files"] += files
    return found


def size_of(folder: Path) -> tuple[int, int]:
    """Bytes and files of everything below ``folder`` that can be seen; links are not followed."""
    sizes = list(_sizes(folder))
    return sum(sizes), len(sizes)


def _sizes(folder: Path) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                yield from _sizes(Path(entry.path))
            else:
                yield _size(entry)


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0
