"""A release as one file: packed once, unpacked on a node's own disk, whole or not at all.

A network file system answers for every file that is opened; a bundle is one, and its hash is
checked before it is unpacked. ``listing.json`` in it names each file with its size, so that a copy
can be checked after a cleaner of temporary files was there. An unpacked release is private and used
again by the next job on that node; where anything is not as it should be, the job runs from the
shared copy and says why.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import stat
import tarfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from Daddy.core.atomic_files import (
    canonical_json,
    parse_json,
    read_bounded,
    read_json,
    sha256_hex,
    write_new,
)
from Daddy.core.errors import FileError
from Daddy.core.run_paths import ReleasePaths

LISTING = "listing.json"
_LIMIT = 256 * 1024 * 1024
_LISTING_LIMIT = 4 * 1024 * 1024


def pack_bundle(files: Mapping[str, bytes]) -> bytes:
    """A parcel of ``files`` (relative name → content); equal files give equal bytes."""
    listing = {"v": 1, "files": {name: len(data) for name, data in files.items()}}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, data in [*sorted(files.items()), (LISTING, canonical_json(listing))]:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o644
            tar.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def unpack_bundle(parcel: Path, sha256: str, folder: Path) -> None:
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
        if find_damage(folder):  # else a neighbour was faster: its bytes are the same
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


def find_damage(folder: Path) -> str:
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


_OLD_S = 30 * 86_400.0
"""Longest time a release that no job starts from any more is kept on a node."""


def find_node_copy(release: ReleasePaths, environ: Mapping[str, str], uid: int) -> tuple[Path, str]:
    """(folder to run from, why it is the shared one or empty)."""
    try:
        sha256 = str(read_json(release.stamp)["parcel_sha256"])
    except (OSError, FileError, KeyError) as error:
        return release.root, f"the release has no parcel ({error!r})"
    why = "no folder on this node can be used"
    for place in _places(environ):
        try:
            private = _private(place, uid)
            folder = private / f"{release.root.name}-{sha256[:12]}"
            if find_damage(folder):
                unpack_bundle(release.parcel, sha256, folder)
            os.utime(folder)
            _sweep(private, folder.stat().st_mtime)
            return folder, ""
        except (OSError, FileError) as error:
            why = f"{place}: {error}"
    return release.root, why


def _places(environ: Mapping[str, str]) -> Iterator[Path]:
    """Folders that are this node's own, best first."""
    named = (environ.get(name) for name in ("SLURM_TMPDIR", "TMPDIR"))
    yield from (Path(name) for name in named if name and os.path.isabs(name))  # noqa: PTH117 - text
    yield Path("/tmp")  # noqa: S108 - what lies below is private, and checked


def _private(place: Path, uid: int) -> Path:
    """A folder of ours that nobody else can look into; FileError where it is somebody else's."""
    folder = place / f"daddy-{uid}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o700)
    facts = folder.lstat()
    ours = stat.S_ISDIR(facts.st_mode) and facts.st_uid == uid
    if not ours or stat.S_IMODE(facts.st_mode) & 0o077:
        raise FileError(f"{folder} is not a private folder of this user", "remove it")
    return folder


def _sweep(private: Path, now: float) -> None:
    """Take away what no job has used for long, and what a killed one left half done."""
    for path in private.iterdir():
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < now - _OLD_S:
                shutil.rmtree(path)
