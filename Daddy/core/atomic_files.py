"""Adapter for durable files: writes a file whole or not at all, on a local disk and on NFS.

The order is: sync the data, rename or link, sync the folder. So a reader sees the old file or the
new one, and a power cut loses at most the newest write (any with ``durable=False``). A name that
one of several writers may create is made by ``link``, which is atomic on NFS; if its reply is lost,
the link count of the temporary file shows that the link was made.
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from Daddy.core.errors import FileError
from Daddy.core.name_validation import unique_names

_CHUNK = 1 << 20

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of a full disk or quota: there may be room again later."""

JSON_LIMIT = 64 * 1024
"""Largest JSON record in bytes that is read: our own are far smaller."""


def sync_folder(folder: Path) -> None:
    """Wait until a folder's names are on disk (fsync); ignore errors of the file system."""
    with contextlib.suppress(OSError):  # some network file systems refuse to sync a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add ``path`` to an OSError without a file name, as a full disk raises it."""
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
    """Replace ``path`` by ``data``: a reader sees the old bytes or the new, never a mixture."""
    temp = _write_temp(path.parent, data, mode, durable=durable)
    try:
        temp.replace(path)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def overwrite(path: Path, data: bytes) -> None:
    """Write JSON over the bytes of an existing file, filled up with spaces to its old length.

    A full disk has room for that. A reader may see a mixture of old and new bytes.
    """
    descriptor = os.open(path, os.O_WRONLY)
    try:
        with _naming(path):
            os.pwrite(descriptor, data.ljust(os.fstat(descriptor).st_size), 0)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield the path of a folder to make, which gets the name ``folder`` once it is complete.

    If another process was first, its folder stays.
    """
    temp = folder.with_name(f".tmp-{uuid.uuid4().hex}")
    try:
        yield temp
        temp.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(temp, ignore_errors=True)


def find_full_disk(folder: Path, size: int = 4096) -> str:
    """Return the error if ``folder`` has no room for ``size`` more bytes, "" if it has.

    A quota shows when bytes are written alone. They are random: some disks store no zeros.
    """
    try:
        _write_temp(folder, os.urandom(size), 0o600).unlink()
    except OSError as error:
        return f"{error.strerror}: {folder}" if error.errno in DISK_FULL else ""
    return ""


def largest_file(folder: Path, pattern: str) -> int | None:
    """Return the bytes of the largest matching file; None if none matches or a file vanishes."""
    with contextlib.suppress(OSError):
        return max((path.stat().st_size for path in folder.glob(pattern)), default=None)
    return None


def write_new(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Create ``path`` without fsync; its caller renames the folder when complete. OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with _naming(path), os.fdopen(descriptor, "wb") as stream:
        stream.write(data)


def create_exclusive(path: Path, data: bytes, mode: int = 0o644, *, durable: bool = True) -> bool:
    """Create ``path`` with ``data``; of several callers, on any host, exactly one gets True."""
    temp = _write_temp(path.parent, data, mode, durable=durable)
    try:
        os.link(temp, path)
        created = True
    except FileExistsError:
        created = temp.stat().st_nlink == 2  # noqa: PLR2004 - our link worked, its reply was lost
    finally:
        with contextlib.suppress(OSError):  # it would hide the result
            temp.unlink(missing_ok=True)
    if durable:
        sync_folder(path.parent)
    return created


def append_line(path: Path, text: str, *, durable: bool = False) -> None:
    """Append one line with a single write; ``durable`` waits for the disk. One writer per file.

    OSError when the disk took a part of the line; the next call then begins with a line break.
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


def append_at(path: Path, size: int, data: bytes) -> None:
    """Append ``data`` durably to a file of ``size`` bytes, 0 also for a file that is not there.

    OSError leaves the file as it was. FileError if it has another size: another process wrote it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        if (found := os.fstat(descriptor).st_size) != size:
            raise FileError(
                f"{path} has {found} bytes, not {size}", "end the other process that writes it"
            )
        with _naming(path):
            try:
                if os.write(descriptor, data) < len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, size)
                raise
    finally:
        os.close(descriptor)
    if not size:
        sync_folder(path.parent)


def _chunks(descriptor: int, limit: int) -> Iterator[bytes]:
    """Yield at most ``limit`` bytes in chunks: no buffer of ``limit`` bytes is allocated."""
    while limit and (chunk := os.read(descriptor, min(limit, _CHUNK))):
        limit -= len(chunk)
        yield chunk


def read_bounded(path: Path, limit: int, owner: int | None = None) -> bytes:
    """Return all bytes of a regular file of at most ``limit`` bytes.

    FileNotFoundError; FileError for a link (other accounts write into shared folders), an owner
    other than the uid ``owner``, a larger file, or a failed read (its cause is the OSError).
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}", "check the permissions") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise FileError(f"{path} is not a regular file", f"remove {path}")
        if owner is not None and status.st_uid != owner:
            raise FileError(f"{path} belongs to uid {status.st_uid}, not {owner}", f"remove {path}")
        data = b"".join(_chunks(descriptor, limit + 1))
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}", "check the disk") from error
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise FileError(
            f"{path} is larger than {limit} bytes, which Daddy never writes", "remove the file"
        )
    return data


def parse_json(data: bytes, name: str) -> dict[str, Any]:
    """Parse a JSON object; FileError with ``name`` when the bytes are anything else."""
    try:
        value = json.loads(data, object_pairs_hook=unique_names)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{name} is not valid JSON: {error}", f"restore/remove {name}") from error
    if not isinstance(value, dict):
        raise FileError(f"{name} holds no JSON object", f"restore or remove {name}")
    return value


def read_json(path: Path, limit: int = JSON_LIMIT) -> dict[str, Any]:
    """Return the JSON object in ``path``. Raises FileNotFoundError, FileError."""
    return parse_json(read_bounded(path, limit), str(path))


def read_json_or_empty(path: Path) -> dict[str, Any]:
    """Return the JSON object in ``path``, empty if there is none that can be read."""
    try:
        return read_json(path)
    except (FileNotFoundError, NotADirectoryError, FileError):
        return {}


def canonical_json(value: Mapping[str, Any]) -> bytes:
    """Encode as JSON with sorted keys, so that equal values have equal bytes and hashes."""
    return (json.dumps(value, sort_keys=True, indent=1, allow_nan=False) + "\n").encode()


def write_json(path: Path, value: Mapping[str, Any], *, durable: bool = True) -> None:
    """Write ``value`` to ``path`` as :func:`write_atomic` does."""
    write_atomic(path, canonical_json(value), durable=durable)


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of ``data`` as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
