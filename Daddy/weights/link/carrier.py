"""What carries files between a laptop and the cluster, as a Protocol: rsync, or SFTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path


class Carrier(Protocol):
    """Copies whole files to and from one folder of the cluster. NetworkError, FileError."""

    @property
    def name(self) -> str:
        """How it goes: ``rsync+ssh`` or ``sftp``."""
        ...

    @property
    def login(self) -> str:
        """Whom it speaks to, for people."""
        ...

    @property
    def folder(self) -> str:
        """The cluster's folder that all names are relative to."""
        ...

    def prepare(self) -> None:
        """Before each exchange: see that the connection is alive or will be made anew."""
        ...

    def fetch(self, name: str, into: Path, size: int) -> bool:
        """Copy one file into a folder here, going on where it stopped; False: there is none."""
        ...

    def fetch_small(self, folder: str, into: Path) -> None:
        """Copy what is new of a folder of small files; nothing when it does not exist."""
        ...

    def send(self, paths: Sequence[Path], folder: str) -> None:
        """Copy files into a folder there, each whole or not at all; what is there stays."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...
