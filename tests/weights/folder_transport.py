"""A file transport whose cluster is a folder of this machine: real files, no network."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from Daddy.weights.laptop.ssh_login import Remote


@dataclass
class FolderTransport:
    """Copies files as rsync would, and records the requested names."""

    root: Path
    fetched: list[str] = field(default_factory=list)
    name = "folder"

    @property
    def remote(self) -> Remote:
        return Remote("here", "nobody", str(self.root))

    def prepare(self) -> None:
        """Do nothing: there is no connection."""

    def fetch(self, name: str, into: Path, size: int) -> bool:
        into.mkdir(parents=True, exist_ok=True)
        self.fetched.append(name)
        source, target = self.root / name, into / Path(name).name
        if not source.exists():
            return False
        if not (size and target.exists()):  # an immutable file that is here is not fetched again
            shutil.copyfile(source, target)
        return True

    def fetch_small(self, folder: str, into: Path) -> None:
        into.mkdir(parents=True, exist_ok=True)
        if (self.root / folder).is_dir():
            shutil.copytree(self.root / folder, into, dirs_exist_ok=True)

    def send(self, paths: Sequence[Path], folder: str) -> None:
        (self.root / folder).mkdir(parents=True, exist_ok=True)
        for path in paths:
            shutil.copy(path, self.root / folder)

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def frames(self) -> list[str]:
        """Return kinds of the files below ``wan/`` that were requested since the last call, in
        order.
        """
        names = [Path(entry).name for entry in self.fetched if entry != "wan/HEAD.json"]
        self.fetched.clear()
        return [f"{name.split('-')[0]}{Path(name).suffix}" for name in names]
