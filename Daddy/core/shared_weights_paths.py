"""The names of all files of a ``shared_weights`` folder, as functions of its root.

Nothing here reads the disk.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any


class PathBelow:
    """A class attribute that gives an instance's path ``root / name``."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, paths: Any, owner: object) -> Path:
        return Path(paths.root, self.name)


class OwnerPath(PathBelow):
    """A class attribute that gives the same path in the folder of the run's owner."""

    def __get__(self, paths: Any, owner: object) -> Path:
        return super().__get__(paths.theirs, owner)


@dataclass(frozen=True, slots=True)
class SharedPaths:
    """One ``shared_weights`` folder (layout: ``docs/formats.md``)."""

    root: Path

    run = PathBelow("RUN.json")
    """Schema hash and rule, written once."""
    origin = PathBelow("ORIGIN.json")
    """The model card of the weights from which version 0 was imported, if it was."""
    blobs = PathBelow("blobs")
    """Immutable files named by their hash."""
    peers = PathBelow("peers")
    stamp = PathBelow("peers.stamp")
    """Replaced by each process at its start, so that readers list ``peers`` again."""
    inbox = PathBelow("inbox")
    """Write-only drop boxes of laptops."""
    receipts = PathBelow("receipts")
    """The result of each contribution (merged, refused), for its author."""
    merged = PathBelow("merged")
    head = PathBelow("HEAD.json")
    """A hint at the newest version; the commit records are the truth."""
    kept = PathBelow("kept.json")
    """Older versions kept for a rollback."""
    evaluations = PathBelow("evaluations")
    """Results of `play evaluate --versions`."""
    wan = PathBelow("wan")
    """The files that laptops pull."""
    lease = PathBelow("lease")
    post = PathBelow("post")
    """The lease of the job that checks the milestones of laptops."""
    quarantine = PathBelow("quarantine")
    tmp = PathBelow("tmp")
    friends = PathBelow("peers.json")
    """Other accounts that take part in the run; only the run's owner writes it."""
    trusted = PathBelow("trusted.json")
    """Names of friends whose trust the owner has chosen."""
    joined = PathBelow("JOINED.json")
    """In a friend's folder: the folder of the run that it joined."""

    def blob(self, sha256: str) -> Path:
        return self.blobs / sha256[:2] / f"{sha256}.st"

    def peer(self, name: str, incarnation: str) -> Path:
        """Return the folder of one process start of a peer; only that process writes into it."""
        return self.peers / name / incarnation

    def version(self, number: int) -> Path:
        """Return the path of a version's commit record."""
        return self.merged / f"v{number:08d}.json"


@dataclass(frozen=True, slots=True)
class JoinedPaths(SharedPaths):
    """A friend's own folder (``root``) beside that of the run's owner (``theirs``).

    A friend's process writes only below ``root``; the owner's commits lie below ``theirs``.
    """

    theirs: SharedPaths

    run = OwnerPath("RUN.json")
    merged = OwnerPath("merged")
    head = OwnerPath("HEAD.json")
    friends = OwnerPath("peers.json")


def owners_root(paths: SharedPaths) -> Path:
    """Return the folder of the run's owner, from which laptops pull: ``root`` in our own run."""
    return paths.run.parent


def joined_paths(root: Path, theirs: Path) -> JoinedPaths:
    """Return the paths of a friend's folder ``root`` beside its run's owner's folder ``theirs``."""
    return JoinedPaths(root, SharedPaths(theirs))
