"""A frozen pair of code and configuration that attempts run from; ``freezing`` makes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from Daddy.core.paths import ReleasePaths


@dataclass(frozen=True, slots=True)
class Release:
    """One frozen pair of code and configuration."""

    ident: str
    path: Path

    @property
    def config(self) -> Path:
        return ReleasePaths(self.path).config
