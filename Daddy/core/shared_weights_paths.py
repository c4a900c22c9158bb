"""Every file name of a ``shared_weights`` folder, said once.

Functions of a root that is passed in; nothing here touches the disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


class PathBelow:
    """A path below ``root``, an attribute of the class that declares it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, paths: Any, owner: object) -> Path:
        return Path(paths.root, self._name)


class OwnerPath(PathBelow):
    """The same path in the folder of the run's owner."""

    def __get__(self, paths: Any, owner: object) -> Path:
        return super().__get__(paths.theirs, owner)


@dataclass(frozen=True, slots=True)
class SharedPaths:
    """One ``shared_weights`` folder (layout: ``docs/formats.md``)."""

    root: Path

    run = PathBelow("RUN.json")
    """Schema hash and rule, written once."""
    origin = PathBelow("ORIGIN.json")
    """The card of the weights that version 0 was imported from, where it was."""
    blobs = PathBelow("blobs")
    """Immutable files named by their hash."""
    peers = PathBelow("peers")
    stamp = PathBelow("peers.stamp")
    """Replaced by each process that begins, so that readers list ``peers`` anew."""
    inbox = PathBelow("inbox")
    """Write-only drop boxes of laptops."""
    receipts = PathBelow("receipts")
    """What became of each contribution, for its author."""
    merged = PathBelow("merged")
    head = PathBelow("HEAD.json")
    """A hint at the newest version; the commit records are the truth."""
    kept = PathBelow("kept.json")
    """The versions that a run can go back to."""
    evaluations = PathBelow("evaluations")
    """Comparisons of two versions, by hand."""
    wan = PathBelow("wan")
    """What laptops pull."""
    lease = PathBelow("lease")
    post = PathBelow("post")
    """Who of the jobs judges what laptops hand in beside weights."""
    quarantine = PathBelow("quarantine")
    tmp = PathBelow("tmp")
    friends = PathBelow("peers.json")
    """Accounts of others that take part: written by the run's owner alone."""
    trusted = PathBelow("trusted.json")
    """Names of friends whose trust the owner has chosen."""
    joined = PathBelow("JOINED.json")
    """In a friend's folder: whose run it takes part in."""

    def blob(self, sha256: str) -> Path:
        return self.blobs / sha256[:2] / f"{sha256}.st"

    def peer(self, name: str, incarnation: str) -> Path:
        """Written by that process start of that peer alone."""
        return self.peers / name / incarnation

    def version(self, number: int) -> Path:
        """Commit record of one version."""
        return self.merged / f"v{number:08d}.json"


@dataclass(frozen=True, slots=True)
class JoinedPaths(SharedPaths):
    """A friend's own folder, where what the run's owner commits lies in the owner's (``theirs``).

    Everything that is written lies below ``root``, everything that is only read below ``theirs``.
    """

    theirs: SharedPaths

    run = OwnerPath("RUN.json")
    merged = OwnerPath("merged")
    head = OwnerPath("HEAD.json")
    friends = OwnerPath("peers.json")


def joined_paths(root: Path, theirs: Path) -> JoinedPaths:
    """A folder of ours at ``root`` in the run whose shared folder is ``theirs``."""
    return JoinedPaths(root, SharedPaths(theirs))
