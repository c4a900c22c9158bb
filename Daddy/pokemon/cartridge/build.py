"""Where the committed cartridge lies."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent


def cartridge_path() -> Path:
    """Path of the committed 32 KiB ROM image inside the package."""
    return HERE / "daddy.gb"
