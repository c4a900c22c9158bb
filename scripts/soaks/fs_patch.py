"""Puts a :class:`LaggingFiles` under a path: replaces ``os`` functions for paths below its root.

The product's own code runs unchanged: ``pathlib`` and ``core.atomic_files`` go through ``os``.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from scripts.soaks.lagging_fs import Inode, LaggingFiles, failure

_FIRST = 1 << 24
"""File descriptors from here on are ours; no process has so many."""


@dataclass
class Stream:
    """File object that ``os.fdopen`` returns for writing."""

    door: PatchedOs
    number: int
    inode: Inode
    closes: bool

    def write(self, data: bytes) -> int:
        self.door.files.moment.step("write")
        self.inode.data += data
        return len(data)

    def flush(self) -> None:
        """Do nothing: writes are not buffered."""

    def fileno(self) -> int:
        return self.number

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if self.closes:
            self.door.close(self.number)


@dataclass(frozen=True)
class Entry:
    """One entry of ``os.scandir``."""

    name: str
    path: str
    folder: bool

    def is_dir(self, **_: Any) -> bool:
        return self.folder

    def is_file(self, **_: Any) -> bool:
        return not self.folder

    def is_symlink(self) -> bool:
        return False


class PatchedOs:
    """Replaces ``os`` for paths and descriptors of the lagging files only."""

    def __init__(self, files: LaggingFiles) -> None:
        self.files = files
        self._open: dict[int, Inode] = {}
        self._at: dict[int, int] = {}
        self._next = _FIRST

    def mine(self, path: Any) -> str:
        """Return the path as text when it lies below the root, else ""."""
        if isinstance(path, int):
            return ""
        text = os.fspath(path)
        root = self.files.root
        return text if isinstance(text, str) and (text + "/").startswith(root + "/") else ""

    def open(self, path: str, flags: int, *_: Any) -> int:
        new = flags & os.O_CREAT
        inode = self.files.open_new(path) if new else self.files.open_old(path)
        self._next += 1
        self._open[self._next], self._at[self._next] = inode, 0
        return self._next

    def read(self, number: int, size: int) -> bytes:
        """Read the bytes as they were when the file was opened."""
        self.files.moment.step("read")
        at = self._at[number]
        data = bytes(self._open[number].data[at : at + size])
        self._at[number] += len(data)
        return data

    def fdopen(self, number: int, *_: Any, closefd: bool = True) -> Stream:
        return Stream(self, number, self._open[number], closefd)

    def fsync(self, _: int) -> None:
        self.files.moment.step("fsync")

    def fstat(self, number: int) -> os.stat_result:
        return self._open[number].facts()

    def chmod(self, *_: Any, **__: Any) -> None:
        """Do nothing: all files are readable."""

    def close(self, number: int) -> None:
        self._at.pop(number, None)
        if self._open.pop(number, None) is None:
            raise failure(errno.EBADF, str(number))

    def stat(self, path: str, **_: Any) -> os.stat_result:
        return self.files.stat(path)

    def listdir(self, path: str) -> list[str]:
        return [name for name, _ in self.files.listing(path)]

    @contextlib.contextmanager
    def scandir(self, path: str) -> Iterator[Iterator[Entry]]:
        yield (Entry(name, f"{path}/{name}", kind) for name, kind in self.files.listing(path))

    def mkdir(self, path: str, *_: Any) -> None:
        self.files.mkdir(path)

    def link(self, source: str, target: Any) -> None:
        self.files.link(source, os.fspath(target))

    def rename(self, source: str, target: Any) -> None:
        self.files.rename(source, os.fspath(target))


@contextlib.contextmanager
def mounted(files: LaggingFiles) -> Iterator[PatchedOs]:
    """Serve ``files`` below their root through ``os`` while the body runs."""
    door = PatchedOs(files)
    ours: dict[str, Callable[..., Any]] = {
        "open": door.open, "stat": door.stat, "lstat": door.stat, "listdir": door.listdir,
        "scandir": door.scandir, "mkdir": door.mkdir, "link": door.link, "rename": door.rename,
        "replace": door.rename, "unlink": files.unlink, "rmdir": files.rmdir,
        "chmod": door.chmod,
    }  # fmt: skip
    by_number: dict[str, Callable[..., Any]] = {
        "fdopen": door.fdopen, "read": door.read, "fsync": door.fsync, "fstat": door.fstat,
        "close": door.close, "fchmod": door.chmod,
    }  # fmt: skip
    kept = {name: getattr(os, name) for name in (*ours, *by_number)}
    try:
        for name, call in ours.items():
            setattr(os, name, _by_path(door, call, kept[name]))
        for name, call in by_number.items():
            setattr(os, name, _by_number(call, kept[name]))
        yield door
    finally:
        for name, real in kept.items():
            setattr(os, name, real)


def _by_path(
    door: PatchedOs, ours: Callable[..., Any], real: Callable[..., Any]
) -> Callable[..., Any]:
    def call(path: Any = ".", *args: Any, **options: Any) -> Any:
        text = door.mine(path)
        return ours(text, *args, **options) if text else real(path, *args, **options)

    return call


def _by_number(ours: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
    def call(number: int, *args: Any, **options: Any) -> Any:
        return (ours if number > _FIRST else real)(number, *args, **options)

    return call
