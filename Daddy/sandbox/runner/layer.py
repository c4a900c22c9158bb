"""Adapter for tar streams of the changes in a writable root: made from it, and made again in one.

A member is a folder, a regular file, a link, or a device 0/0: what has its name in the image is
gone, as overlayfs writes it. Folders come before what is in them. Sockets and FIFOs are left out.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys

from .archive import fail_copy
from .namespaces import LAYERS, MADE, OPAQUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, NoReturn

_NOT_KEPT = ("dev", "proc")
_PIECE = 64 * 1024
_MOST_LINKS = 40


def save(store: int, shown: list[str], overlaid: list[str]) -> NoReturn:
    """Write all changes to standard output as a stream; then exit.

    `store` is the descriptor of the root's tmpfs. All processes of commands have ended.
    """
    import tarfile  # slow to load, and only here

    os.fchdir(store)
    links: dict[int, str] = {}
    uppers = [(folder.strip("/"), f"{LAYERS[2]}/{at}") for at, folder in enumerate(overlaid)]
    skipped = {*_NOT_KEPT, *(path.strip("/") for path in (*shown, *overlaid))}
    try:
        with tarfile.open(
            fileobj=sys.stdout.buffer, mode="w|", format=tarfile.PAX_FORMAT
        ) as stream:
            _save_folder(stream, LAYERS[0], "", links, skipped)
            for folder, upper in uppers:
                _save_folder(stream, upper, folder, links, set())
        sys.stdout.flush()
    except (OSError, RecursionError, tarfile.TarError) as error:
        fail_copy(f"cannot save the changes: {error}")
    os._exit(0)


def _save_folder(
    stream: Any, path: str, shown: str, links: dict[int, str], skipped: set[str]
) -> None:
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    os.chmod(path, mode | stat.S_IRWXU)  # noqa: PTH101 - nobody uses this root any more
    names = sorted(os.listdir(path))  # noqa: PTH208
    if shown and (names or not _has_attribute(path, MADE)):
        if _has_attribute(path, OPAQUE):
            _add(stream, shown, "CHRTYPE")
        _add(stream, shown, "DIRTYPE", mode=mode)
    for name in names:
        below = f"{shown}/{name}" if shown else name
        if below in skipped:
            continue
        status = os.lstat(f"{path}/{name}")
        if stat.S_ISDIR(status.st_mode):
            _save_folder(stream, f"{path}/{name}", below, links, skipped)
        else:
            _save_file(stream, f"{path}/{name}", below, status, links)


def _save_file(
    stream: Any, path: str, shown: str, status: os.stat_result, links: dict[int, str]
) -> None:
    mode, kind = stat.S_IMODE(status.st_mode), stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFCHR:
        _add(stream, shown, "CHRTYPE")
    elif kind == stat.S_IFLNK:
        _add(stream, shown, "SYMTYPE", linkname=os.readlink(path))  # noqa: PTH115
    elif kind == stat.S_IFREG and status.st_ino in links:
        _add(stream, shown, "LNKTYPE", linkname=links[status.st_ino])
    elif kind == stat.S_IFREG:
        if status.st_nlink > 1:
            links[status.st_ino] = shown
        if not mode & stat.S_IRUSR:
            os.chmod(path, mode | stat.S_IRUSR)  # noqa: PTH101
        with open(path, "rb") as file:  # noqa: PTH123
            size, mtime = status.st_size, status.st_mtime
            _add(stream, shown, "REGTYPE", file, mode=mode, size=size, mtime=mtime)


def _add(stream: Any, name: str, kind: str, file: Any = None, **fields: Any) -> None:
    import tarfile

    member = tarfile.TarInfo(name)
    member.type = getattr(tarfile, kind)
    for field, value in fields.items():
        setattr(member, field, value)
    stream.addfile(member, file)


def _has_attribute(path: str, name: str) -> bool:
    with contextlib.suppress(OSError):
        os.getxattr(path, name)
        return True
    return False


def restore(
    only: list[str], without: list[str], unlinked: list[str], *, readable: bool
) -> NoReturn:
    """Make the changes of the stream on standard input again below /; then exit.

    `only` are the paths that are taken, all if it is empty, and `without` paths that are not. A
    link that passes a path of `unlinked`, or leads to a folder above it, is removed.
    With `readable` the owner may read all files, and also write to all folders.
    """
    import tarfile

    def wanted(name: str, *, is_folder: bool = False) -> bool:
        """Tell that a path is taken, and replaces no folder above an excluded one."""
        below = (not only) or any(_is_below(name, path) for path in only)
        return below and not any(
            _is_below(name, path) or (not is_folder and _is_below(path, name)) for path in without
        )

    def kept(member: Any) -> bool:
        if readable:
            member.mode |= stat.S_IRWXU if member.isdir() else stat.S_IRUSR
        return wanted(member.name, is_folder=member.isdir())

    try:
        with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as stream:
            _restore(stream, filter(kept, stream), wanted, unlinked)
    except (OSError, tarfile.TarError) as error:
        fail_copy(f"cannot restore the changes: {error}")
    os._exit(0)


def _restore(
    stream: Any, members: Iterable[Any], wanted: Callable[[str], bool], unlinked: list[str]
) -> None:
    modes: list[tuple[str, int]] = []
    links: list[str] = []
    for member in members:
        _restore_member(stream, member, modes, wanted)
        links += [f"/{member.name}"] if member.issym() else []
    _remove_links(links, unlinked)  # before a mode forbids it
    for path, mode in reversed(modes):
        with contextlib.suppress(PermissionError):  # of a folder of the image
            os.chmod(path, mode)  # noqa: PTH101


def _remove_links(links: list[str], unlinked: list[str]) -> None:
    for link in links:
        *passed, target = _walk(link)
        above = not target or any(_is_below(path, target) for path in unlinked)
        if above or any(_is_below(hop, path) for hop in (*passed, target) for path in unlinked):
            os.unlink(link)  # noqa: PTH108


def _walk(path: str) -> list[str]:
    """Return each place that a path passes, and last its end; at most as many links as Linux."""
    places, here, left, links = [""], "", path.split("/")[::-1], 0
    while left and links <= _MOST_LINKS:
        part = left.pop()
        if part in ("", "."):
            continue
        below = os.path.normpath(f"/{here}/{part}").strip("/")
        if part != ".." and os.path.islink(f"/{below}"):  # noqa: PTH114
            links += 1
            target = os.readlink(f"/{below}")  # noqa: PTH115
            here = "" if target.startswith("/") else here
            left += target.split("/")[::-1]
        else:
            here = below
        places.append(here)
    return places


def _is_below(name: str, path: str) -> bool:
    return name == path or name.startswith(f"{path}/")


def _restore_member(
    stream: Any, member: Any, modes: list[tuple[str, int]], wanted: Callable[[str], bool]
) -> None:
    path = f"/{member.name}"
    if member.isdir():
        if os.path.islink(path) or not os.path.isdir(path):  # noqa: PTH112, PTH114
            _remove(path)
            os.makedirs(path, 0o700)  # noqa: PTH103
        modes.append((path, member.mode))
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
    _remove(path)
    if member.issym():
        os.symlink(member.linkname, path)  # noqa: PTH211
    elif member.islnk() and wanted(member.linkname):
        os.link(f"/{member.linkname}", path)
    elif member.isreg():
        _write_new(stream.extractfile(member), path)
        os.chmod(path, member.mode)  # noqa: PTH101
        os.utime(path, (member.mtime, member.mtime))


def _write_new(source: Any, path: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        while piece := source.read(_PIECE):
            file.write(piece)


def _remove(path: str) -> None:
    """Remove a path and all below it, if it is there; no link is followed."""
    if not os.path.lexists(path):
        return
    if os.path.islink(path) or not os.path.isdir(path):  # noqa: PTH112, PTH114
        os.unlink(path)  # noqa: PTH108
        return
    for name in os.listdir(path):  # noqa: PTH208
        _remove(f"{path}/{name}")
    os.rmdir(path)  # noqa: PTH106
