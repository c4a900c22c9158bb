"""Adapter for tar streams inside a sandbox: the counterpart of the host's transfer.

A stream holds folders and regular files. Its first member is ``.``; further ones are ``./NAME``.
Every part of a path is opened by itself below the folder before it, and no link is followed.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_PIECE = 64 * 1024


def unpack(root: int, target: str) -> None:
    """Write the stream of standard input to `target`, a path below the folder `root`; then exit.

    Files are replaced; a link in a folder's place is an error.
    """
    import tarfile  # slow to load, and only here

    try:
        folder, name = _enter(root, [part for part in target.split("/") if part])
        with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as stream:
            for member in stream:
                parts = [name, *member.name.split("/")[1:]]
                _write(stream, member, *_enter(folder, parts))
    except (OSError, tarfile.TarError) as error:
        fail_copy(f"cannot write {target!r}: {error}")
    os._exit(0)


def _enter(folder: int, parts: list[str]) -> tuple[int, str]:
    """Return a descriptor of the folder of the last part, made if it is missing, and this part."""
    if not parts or not {"", ".", ".."}.isdisjoint(parts):
        raise OSError(f"no path: {'/'.join(parts)!r}")
    current = os.dup(folder)
    for part in parts[:-1]:
        below = _open_folder(current, part)
        os.close(current)
        current = below
    return current, parts[-1]


def _open_folder(folder: int, name: str) -> int:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=folder)
    return os.open(name, _FOLDER, dir_fd=folder)


def _write(stream: Any, member: Any, folder: int, name: str) -> None:
    try:
        if member.isdir():
            os.close(_open_folder(folder, name))
        elif member.isreg():
            _write_file(stream.extractfile(member), member.mode & 0o777, folder, name)
        else:
            raise OSError(f"{member.name!r} is no file and no folder")
    finally:
        os.close(folder)


def _write_file(source: Any, mode: int, folder: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    with os.fdopen(os.open(name, _NEW_FILE, mode, dir_fd=folder), "wb") as file:
        while piece := source.read(_PIECE):
            file.write(piece)


def pack(source: str, *, regular_only: bool = False) -> None:
    """Write `source`, an absolute path, to standard output as a stream; then exit.

    A link, a device or a FIFO in it is an error, or with `regular_only` left out.
    """
    import tarfile

    try:
        parts = [part for part in source.split("/") if part]
        if not source.startswith("/") or not {".", ".."}.isdisjoint(parts):
            raise OSError("no absolute path")
        folder = os.open("/", _FOLDER)
        for part in parts[:-1]:
            folder = os.open(part, _FOLDER, dir_fd=folder)
        with tarfile.open(
            fileobj=sys.stdout.buffer, mode="w|", format=tarfile.GNU_FORMAT
        ) as stream:
            _pack(stream, folder, parts[-1] if parts else ".", ".", regular_only)
        sys.stdout.flush()
    except (OSError, tarfile.TarError) as error:
        fail_copy(f"cannot read {source!r}: {error}")
    os._exit(0)


def _pack(stream: Any, folder: int, name: str, shown: str, regular_only: bool) -> None:
    """Add one member and what is in it. Opens without waiting: a FIFO may stand there by now."""
    import tarfile

    kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    descriptor = -1
    if stat.S_ISDIR(kind) or stat.S_ISREG(kind):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(name, flags, dir_fd=folder)
        kind = os.fstat(descriptor).st_mode
    member = tarfile.TarInfo(shown)
    member.mode = kind & 0o777
    if stat.S_ISDIR(kind):
        member.type = tarfile.DIRTYPE
        stream.addfile(member)
        for child in sorted(os.listdir(descriptor)):  # noqa: PTH208
            _pack(stream, descriptor, child, f"{shown}/{child}", regular_only)
        os.close(descriptor)
    elif stat.S_ISREG(kind):
        with os.fdopen(descriptor, "rb") as file:
            member.size = os.fstat(descriptor).st_size
            stream.addfile(member, file)
    elif shown == "." or not regular_only:
        raise OSError(f"{shown!r} is no file and no folder")


def fail_copy(message: str) -> NoReturn:
    """Tell the host why a copy failed, and exit."""
    os.write(2, message.encode(errors="replace")[:500])
    os._exit(1)
