"""Every file name of a ``shared_weights`` folder, said once.

Functions of a root that is passed in; nothing here touches the disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SharedPaths:
    """One ``shared_weights`` folder (layout: ``docs/formats.md``)."""

    root: Path

    @property
    def run(self) -> Path:
        """Schema hash and rule, written once."""
        return self.root / "RUN.json"

    @property
    def origin(self) -> Path:
        """The card of the weights that version 0 was imported from, where it was."""
        return self.root / "ORIGIN.json"

    @property
    def blobs(self) -> Path:
        """Immutable files named by their hash."""
        return self.root / "blobs"

    def blob(self, sha256: str) -> Path:
        return self.blobs / sha256[:2] / f"{sha256}.st"

    @property
    def peers(self) -> Path:
        return self.root / "peers"

    def peer(self, name: str, incarnation: str) -> Path:
        """Written by that process start of that peer alone."""
        return self.peers / name / incarnation

    @property
    def stamp(self) -> Path:
        """Replaced by each process that begins, so that readers list ``peers`` anew."""
        return self.root / "peers.stamp"

    @property
    def inbox(self) -> Path:
        """Write-only drop boxes of laptops."""
        return self.root / "inbox"

    @property
    def receipts(self) -> Path:
        """What became of each contribution, for its author."""
        return self.root / "receipts"

    @property
    def merged(self) -> Path:
        return self.root / "merged"

    def version(self, number: int) -> Path:
        """Commit record of one version."""
        return self.merged / f"v{number:08d}.json"

    @property
    def head(self) -> Path:
        """A hint at the newest version; the commit records are the truth."""
        return self.root / "HEAD.json"

    @property
    def kept(self) -> Path:
        """The versions that a run can go back to."""
        return self.root / "kept.json"

    @property
    def evaluations(self) -> Path:
        """Comparisons of two versions, by hand."""
        return self.root / "evaluations"

    @property
    def wan(self) -> Path:
        """What laptops pull."""
        return self.root / "wan"

    @property
    def lease(self) -> Path:
        return self.root / "lease"

    @property
    def post(self) -> Path:
        """Who of the jobs judges what laptops hand in beside weights."""
        return self.root / "post"

    @property
    def quarantine(self) -> Path:
        return self.root / "quarantine"

    @property
    def tmp(self) -> Path:
        return self.root / "tmp"

    @property
    def friends(self) -> Path:
        """Accounts of others that take part: written by the run's owner alone."""
        return self.root / "peers.json"

    @property
    def trusted(self) -> Path:
        """Names of friends whose trust the owner has chosen."""
        return self.root / "trusted.json"

    @property
    def joined(self) -> Path:
        """In a friend's folder: whose run it takes part in."""
        return self.root / "JOINED.json"


@dataclass(frozen=True, slots=True)
class JoinedPaths(SharedPaths):
    """A friend's own folder, where what the run's owner commits lies in the owner's (``theirs``).

    Everything that is written lies below ``root``, everything that is only read below ``theirs``.
    """

    theirs: SharedPaths

    @property
    def run(self) -> Path:
        return self.theirs.run

    @property
    def merged(self) -> Path:
        return self.theirs.merged

    @property
    def head(self) -> Path:
        return self.theirs.head

    @property
    def friends(self) -> Path:
        return self.theirs.friends


def joined(root: Path, theirs: Path) -> JoinedPaths:
    """A folder of ours at ``root`` in the run whose shared folder is ``theirs``."""
    return JoinedPaths(root, SharedPaths(theirs))
