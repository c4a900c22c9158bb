"""Many small files as one: packed once, unpacked whole or not at all, checked against its listing.

A network file system answers for every file that is opened; a parcel is one, and its hash is
checked before it is unpacked. ``listing.json`` in it names each file with its size, so that a copy
can be looked over after a cleaner of temporary files was there.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tarfile
import uuid
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from Daddy.core.errors import FileError
from Daddy.core.files import parse_json, read_bounded, sha256_hex, to_json, write_new

LISTING = "listing.json"
_LIMIT = 256 * 1024 * 1024
_LISTING_LIMIT = 4 * 1024 * 1024


def pack(files: Mapping[str, bytes]) -> bytes:
    """A parcel of ``files`` (relative name → content); equal files give equal bytes."""
    listing = {"v": 1, "files": {name: len(data) for name, data in files.items()}}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, data in [*sorted(files.items()), (LISTING, to_json(listing))]:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o644
            tar.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def unpack(parcel: Path, sha256: str, folder: Path) -> None:
    """Make ``folder`` of a parcel with that hash, by one rename; a whole one there is kept.

    FileError where the parcel is damaged, OSError where the place is full or not ours.
    """
    data = read_bounded(parcel, _LIMIT)
    if sha256_hex(data) != sha256:
        raise FileError(f"{parcel} does not have the hash its record names", "start anew")
    temp = folder.with_name(f".tmp-{uuid.uuid4().hex}")
    try:
        _write(data, temp)
        with contextlib.suppress(FileNotFoundError):
            folder.replace(temp.with_suffix(".old"))  # what a cleaner left of it
        temp.replace(folder)
    except OSError:
        if faults(folder):  # else a neighbour was faster: its bytes are the same
            raise
    finally:
        for left in (temp, temp.with_suffix(".old")):
            shutil.rmtree(left, ignore_errors=True)


def _write(data: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
        for member in tar:
            path = PurePosixPath(member.name)
            outside = path.is_absolute() or ".." in path.parts
            stream = tar.extractfile(member) if member.isreg() and not outside else None
            if stream is None:
                raise FileError(f"a parcel names {member.name!r}", "it is not one of ours")
            write_new(folder / path, stream.read())


def faults(folder: Path) -> str:
    """What is wrong with an unpacked parcel; empty when every file is there in its size.

    Opens one file: it is asked at every start of a job.
    """
    try:
        listing = parse_json(read_bounded(folder / LISTING, _LISTING_LIMIT), LISTING)
        for name, size in dict(listing["files"]).items():
            if (folder / name).lstat().st_size != size:
                return f"{name} is damaged"
    except (FileNotFoundError, NotADirectoryError) as error:
        return f"{os.path.basename(error.filename or LISTING)} is missing"  # noqa: PTH119 - a name
    except (OSError, FileError, KeyError, TypeError, ValueError) as error:
        return str(error)
    return ""
