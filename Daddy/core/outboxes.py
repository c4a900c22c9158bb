"""Door to other accounts' folders: what their jobs say and offer, read and never touched.

Nothing there is trusted: not its name, kind, owner, size or number. Everything must belong to the
account that was pinned when the folder became known; links are not followed; jobs are asked for by
name, and of a job's processes so many are looked at and no more. What is wrong with a folder is one
sentence that ends in what to do.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from Daddy.core.access import closed_at
from Daddy.core.files import read_bounded
from Daddy.core.friends import MOST_JOBS, read_friends
from Daddy.core.shared_paths import JoinedPaths, SharedPaths

MOST_NAMES = 256
"""Names that are looked at in one job's folder."""

MOST_PROCESSES = 64
"""Process starts of one account that are looked at, those first that wrote last."""


_INCARNATION = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class Outbox:
    """One other account's jobs: ``friend`` as the owner calls it ("" for the owner's own jobs),
    the folder, the uid that everything in it must have, whether its jobs count as laptops, and how
    many there are: the others' shares shrink with the number of those who live.
    """

    friend: str
    paths: SharedPaths
    uid: int
    laptop: bool = False
    jobs: int = 4

    @property
    def name(self) -> str:
        """Whose it is, for people."""
        return self.friend or "the run's owner"

    def incarnations(self) -> list[Path]:
        """The folders of its processes; empty where nothing can be seen (:meth:`trouble`)."""
        if len(self._folders([self.paths.root, self.paths.peers])) < 2:  # noqa: PLR2004
            return []
        mine = self._jobs()
        found = [(since, path) for peer in mine for path, since in self._below(peer)
                 if _INCARNATION.fullmatch(path.name)]  # fmt: skip
        return sorted(path for _, path in sorted(found, reverse=True)[:MOST_PROCESSES])

    def read(self, path: Path, limit: int) -> bytes:
        """The bytes of a file of that account; FileNotFoundError, FileError."""
        return read_bounded(path, limit, owner=self.uid)

    def trouble(self) -> str:
        """Why nothing, or not all, can be seen there, and what to do; empty where all is well."""
        root, peers = self.paths.root, self.paths.peers
        try:
            why = self._refusal(root) or self._refusal(peers)
            mine = [] if why else [path for path, _ in self._folders(self._jobs())]
            full = [path for path in mine if len(_names(path)) > MOST_NAMES]
            return (
                f"{full[0]} holds more than {MOST_NAMES} names: ask for a clean-up" if full else why
            )
        except FileNotFoundError as error:
            if error.filename == str(self.paths.peers):
                return ""  # no job of theirs has begun yet
            return f"{self.paths.root} is gone: ask for the new place, or remove the friend"
        except PermissionError as error:
            closed = closed_at(self.paths.peers)
            right = f"o+x {closed}" if closed else f"o+rx {error.filename}"
            return f"{closed or error.filename} is closed to us: ask for chmod {right}"
        except OSError as error:
            return f"{error.filename} cannot be read: {error.strerror}"

    def _jobs(self) -> list[Path]:
        """Where its jobs would write, by name: nobody else's word counts there."""
        before = f"{self.friend}." if self.friend else ""
        return [self.paths.peers / f"{before}slot-{number}" for number in range(self.jobs)]

    def _refusal(self, folder: Path) -> str:
        facts = os.lstat(folder)
        if not stat.S_ISDIR(facts.st_mode):
            return f"{folder} is no folder (a link is not followed): add the friend's real folder"
        if facts.st_uid != self.uid:
            return f"{folder} belongs to uid {facts.st_uid}, not {self.uid}: add the friend anew"
        return ""

    def _below(self, parent: Path) -> list[tuple[Path, float]]:
        """The folders in ``parent``, itself one of that account; empty where none can be seen."""
        with contextlib.suppress(OSError):
            if self._folders([parent]):
                return self._folders([parent / name for name in _names(parent)[:MOST_NAMES]])
        return []

    def _folders(self, paths: Sequence[Path]) -> list[tuple[Path, float]]:
        """Those that are folders of that account, each with when something was last put there."""
        found = []
        for path in paths:
            with contextlib.suppress(OSError):
                if not self._refusal(path):
                    found.append((path, os.lstat(path).st_mtime))
        return found


def outboxes(shared: SharedPaths) -> list[Outbox]:
    """Every other account that takes part in the run: the owner's first where it is joined.

    FileError when the list is damaged.
    """
    boxes = [
        Outbox(one.name, one.shared, one.uid, one.trust == "laptop", one.jobs)
        for one in read_friends(shared)
        if one.shared.root != shared.root
    ]
    if isinstance(shared, JoinedPaths):
        with contextlib.suppress(OSError):  # what is closed to us we are told when we join
            uid = shared.theirs.root.stat().st_uid
            boxes.insert(0, Outbox("", shared.theirs, uid, jobs=MOST_JOBS))
    return boxes


def _names(folder: Path) -> list[str]:
    """At most one more than are looked at."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, MOST_NAMES + 1)]
