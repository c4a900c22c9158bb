"""Door to durable files: whole or not at all, on a local disk and on NFS.

Order is always data, then name, then folder, so that a reader sees the old file or the new one and
a power cut loses at most the newest; only what is written as not durable may be gone after one.
Names that mean "first come" are created by ``link``, which is atomic on NFS; after an error the
link count tells whether it succeeded all the same.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from Daddy.core.errors import FileError

_PIECE = 1 << 20

JSON_LIMIT = 64 * 1024
"""Bytes a JSON record of ours may have: every one is far smaller, so larger means hostile."""


def sync_folder(folder: Path) -> None:
    """As well as it can be done: the name is there already, so nothing may look like a failure."""
    with contextlib.suppress(OSError):  # some network file systems refuse to sync a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """A full disk says neither file nor folder: name it, so that the person can be told."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def _write_temp(folder: Path, data: bytes, mode: int, *, durable: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    temp = folder / f".tmp-{os.getpid()}-{uuid.uuid4().hex}"
    descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with _naming(folder), os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
    return temp


def write_atomic(path: Path, data: bytes, mode: int = 0o644, *, durable: bool = True) -> None:
    """Replace ``path`` by ``data``: a reader sees the old bytes or the new, never a mixture.

    Without ``durable`` the disk is not waited for: for what means nothing after a power cut.
    """
    temp = _write_temp(path.parent, data, mode, durable=durable)
    try:
        temp.replace(path)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def write_new(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write into a folder that nobody knows yet: renaming that makes all of it exist at once.

    Not synced: for copies that can be made again. OSError, FileExistsError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with _naming(path), os.fdopen(descriptor, "wb") as stream:
        stream.write(data)


def create_exclusive(path: Path, data: bytes, mode: int = 0o644, *, durable: bool = True) -> bool:
    """Create ``path`` with ``data`` unless the name exists; False when someone was first.

    Two callers on two hosts: exactly one gets True. Without ``durable`` the disk is not waited for.
    """
    temp = _write_temp(path.parent, data, mode, durable=durable)
    try:
        os.link(temp, path)
        won = True
    except FileExistsError:
        won = temp.stat().st_nlink == 2  # noqa: PLR2004 - our link worked, its reply was lost
    finally:
        with contextlib.suppress(OSError):  # it would hide who won
            temp.unlink(missing_ok=True)
    if durable:
        sync_folder(path.parent)
    return won


def append_line(path: Path, text: str, *, durable: bool = False) -> None:
    """Append one line with a single write; ``durable`` waits for the disk. One writer per file.

    OSError when the disk took only a part of it; the next line then begins on a line of its own.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        line = ("\n" * torn + text.rstrip("\n") + "\n").encode()
        with _naming(path):
            if os.write(descriptor, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if durable:
                os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _pieces(descriptor: int, most: int) -> Iterator[bytes]:
    """The bytes of a file up to so many, in pieces: a limit is no size to allocate."""
    while most and (piece := os.read(descriptor, min(most, _PIECE))):
        most -= len(piece)
        yield piece


def read_bounded(path: Path, limit: int, owner: int | None = None) -> bytes:
    """All bytes of a regular file; FileError when it is no regular file or larger than ``limit``.

    A symbolic link is refused: shared folders are written by others; so is a file of another
    account than ``owner`` (a uid), where one is given. Where the disk would not give the bytes, the
    error's cause is the OSError.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}", "check its permissions") from error
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise FileError(f"{path} is not a regular file", "remove it")
        if owner is not None and facts.st_uid != owner:
            raise FileError(f"{path} belongs to uid {facts.st_uid}, not {owner}", "remove it")
        data = b"".join(_pieces(descriptor, limit + 1))
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}", "look at the disk") from error
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise FileError(f"{path} is larger than {limit} bytes", "it is not one of ours: remove it")
    return data


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key stands twice")
    return value


def parse_json(data: bytes, name: str) -> dict[str, Any]:
    """A JSON object from bytes; FileError naming ``name`` when it is anything else."""
    try:
        value = json.loads(data, object_pairs_hook=_refuse_duplicates)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{name} is not valid JSON: {error}", "restore or remove it") from error
    if not isinstance(value, dict):
        raise FileError(f"{name} holds no JSON object", "restore or remove it")
    return value


def read_json(path: Path, limit: int = JSON_LIMIT) -> dict[str, Any]:
    """The JSON object in ``path``; FileNotFoundError or FileError."""
    return parse_json(read_bounded(path, limit), str(path))


def read_json_or_empty(path: Path) -> dict[str, Any]:
    """The JSON object in ``path``; empty where there is none that can be read."""
    try:
        return read_json(path)
    except (FileNotFoundError, NotADirectoryError, FileError):
        return {}


def canonical_json(value: Mapping[str, Any]) -> bytes:
    """Canonical JSON (sorted keys): the same value has the same bytes and the same hash."""
    return (json.dumps(value, sort_keys=True, indent=1, allow_nan=False) + "\n").encode()


def write_json(path: Path, value: Mapping[str, Any], *, durable: bool = True) -> None:
    """Write ``value`` to ``path`` as :func:`write_atomic` does."""
    write_atomic(path, canonical_json(value), durable=durable)


def sha256_hex(data: bytes) -> str:
    """SHA-256 of ``data`` as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
