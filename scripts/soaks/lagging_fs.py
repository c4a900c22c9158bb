"""A file system in memory that shows each process the present state, or an earlier one.

As NFS does: a process sees its own changes at once, names are created and removed by the server
alone, and the view of another process may lag, but never goes back and never lags by more than
``lag_s``. A removed name may still be listed; opening it then fails with ENOENT or ESTALE.
"""

import bisect
import errno
import itertools
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

Change = Callable[[str, "Inode | None"], None]
"""Told of every name that begins to mean something else; None: it is gone."""


class Moment(Protocol):
    """The running process, the time, and the random choices."""

    time: float

    @property
    def actor(self) -> str: ...
    def step(self, what: str) -> None: ...
    def answer(self, what: str) -> None: ...
    def between(self, low: float, high: float) -> float: ...
    def by_chance(self, probability: float) -> bool: ...


@dataclass
class Inode:
    """Content of a name: a file's bytes, or a folder."""

    number: int
    folder: bool = False
    links: int = 1
    data: bytearray = field(default_factory=bytearray)

    def facts(self) -> os.stat_result:
        mode = stat.S_IFDIR | 0o755 if self.folder else stat.S_IFREG | 0o644
        size = len(self.data)
        return os.stat_result((mode, self.number, 1, self.links, 0, 0, size, 0, 0, 0))


def failure(number: int, path: str) -> OSError:
    """Return the OSError (its subclass) of an error number."""
    return OSError(number, os.strerror(number), path)


class LaggingFiles:
    """The server's state, its past, and the age of each process's view of it."""

    def __init__(self, root: str, moment: Moment, lag_s: float, changed: Change) -> None:
        self.root, self.moment, self.lag_s, self.changed = root, moment, lag_s, changed
        self._numbers = itertools.count(1)
        self._past: dict[str, tuple[list[float], list[Inode | None]]] = {}
        self._names: dict[str, set[str]] = {}
        self._seen: dict[tuple[str, str, str], float] = {}
        self._set(root, self._inode(folder=True))

    # -- the server

    def truth(self, path: str) -> Inode | None:
        """Return the content of ``path`` on the server."""
        return self._past[path][1][-1] if path in self._past else None

    def names(self, folder: str) -> list[str]:
        """Return the names in ``folder`` on the server."""
        found = self._names.get(folder, ())
        return sorted(name for name in found if self.truth(f"{folder}/{name}") is not None)

    def _inode(self, *, folder: bool = False) -> Inode:
        return Inode(next(self._numbers), folder)

    def _set(self, path: str, inode: Inode | None) -> None:
        times, values = self._past.setdefault(path, ([], []))
        times.append(self.moment.time)
        values.append(inode)
        parent, _, name = path.rpartition("/")
        self._names.setdefault(parent, set()).add(name)
        for kind, place in (("name", path), ("list", parent)):
            self._seen[self.moment.actor, kind, place] = self.moment.time
        self.changed(path, inode)

    def _fresh(self, path: str) -> None:
        self._seen[self.moment.actor, "name", path] = self.moment.time

    # -- what an actor sees

    def _as_of(self, kind: str, path: str, changed_at: float) -> float:
        """Return the time of the process's view of ``path``: within the lag, never earlier."""
        now, key = self.moment.time, (self.moment.actor, kind, path)
        if not key[0]:
            return now
        earliest = max(self._seen.get(key, 0.0), now - self.lag_s)
        if changed_at > earliest and self.moment.by_chance(0.7):
            # a cache answers until it expires, or was refreshed for another reason
            now = earliest if self.moment.by_chance(0.5) else self.moment.between(earliest, now)
        self._seen[key] = now
        return now

    def look(self, path: str) -> Inode | None:
        """Return the content of ``path`` in the process's view."""
        if path not in self._past:
            return None
        times, values = self._past[path]
        index = bisect.bisect_right(times, self._as_of("name", path, times[-1]))
        return values[index - 1] if index else None

    def _need(self, path: str) -> Inode:
        found = self.look(path)
        if found is None:
            raise failure(errno.ENOENT, path)
        return found

    # -- calls

    def stat(self, path: str) -> os.stat_result:
        self.moment.step("stat")
        return self._need(path).facts()

    def listing(self, folder: str) -> list[tuple[str, bool]]:
        """Return (name, is a folder) of all entries of ``folder`` in the process's view."""
        self.moment.step("list")
        if not self._need(folder).folder:
            raise failure(errno.ENOTDIR, folder)
        names = sorted(self._names.get(folder, ()))
        pasts = {name: self._past[f"{folder}/{name}"] for name in names}
        latest = max((times[-1] for times, _ in pasts.values()), default=0.0)
        moment = self._as_of("list", folder, latest)
        found = []
        for name, (times, values) in pasts.items():
            index = bisect.bisect_right(times, moment)
            inode = values[index - 1] if index else None
            if inode is not None:
                found.append((name, inode.folder))
        return found

    def open_new(self, path: str) -> Inode:
        self.moment.step("create")
        self._refuse_existing(path)
        inode = self._inode()
        self._set(path, inode)
        return inode

    def open_old(self, path: str) -> Inode:
        """Open a file in the process's view; fail for a removed name."""
        self.moment.step("open")
        seen = self._need(path)
        if self.truth(path) is None:
            self._fresh(path)
            raise failure(errno.ESTALE if self.moment.by_chance(0.5) else errno.ENOENT, path)
        return seen

    def link(self, source: str, target: str) -> None:
        self.moment.step("link")
        inode = self._need(source)
        self._refuse_existing(target)
        inode.links += 1
        self._set(target, inode)
        self.moment.answer("link")

    def _refuse_existing(self, path: str) -> None:
        if self.truth(path) is not None:
            self._fresh(path)
            raise failure(errno.EEXIST, path)
        if self.truth(path.rpartition("/")[0]) is None:
            raise failure(errno.ENOENT, path)

    def unlink(self, path: str) -> None:
        self.moment.step("unlink")
        self._need(path)
        inode = self.truth(path)
        if inode is None:
            self._fresh(path)
            raise failure(errno.ENOENT, path)
        if inode.folder:
            raise failure(errno.EISDIR, path)
        inode.links -= 1
        self._set(path, None)

    def rename(self, source: str, target: str) -> None:
        """Rename a file; folders are never renamed here."""
        self.moment.step("rename")
        inode = self.truth(source)
        if inode is None:
            self._fresh(source)
            raise failure(errno.ENOENT, source)
        if self.truth(target.rpartition("/")[0]) is None:
            raise failure(errno.ENOENT, target)
        before = self.truth(target)
        if before is inode:
            return  # two names of one file: POSIX leaves both
        if before is not None:
            before.links -= 1
        self._set(target, inode)
        self._set(source, None)

    def mkdir(self, path: str) -> None:
        self.moment.step("mkdir")
        self._refuse_existing(path)
        self._set(path, self._inode(folder=True))

    def rmdir(self, path: str) -> None:
        self.moment.step("rmdir")
        inode = self.truth(path)
        if inode is None:
            raise failure(errno.ENOENT, path)
        if not inode.folder:
            raise failure(errno.ENOTDIR, path)
        if self.names(path):
            raise failure(errno.ENOTEMPTY, path)
        self._set(path, None)
