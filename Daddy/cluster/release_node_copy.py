"""Packs a release into one file, and unpacks it on the local disk of a job's node.

On a network file system every opened file is a round trip, and a bundle is one file. Its hash is
checked before it is unpacked. Its ``listing.json`` names each file with its size, so a job notices
when a cleaner of temporary files has deleted some. The unpacked folder is private to the user and
reused by later jobs on that node. After any error the job runs from the shared release instead.
"""

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
_NO_BUNDLE = "do nothing: the job runs from the shared release"


def pack_bundle(files: Mapping[str, bytes]) -> bytes:
    """Return a tar archive of ``files`` (relative path → content); equal files give equal bytes."""
    listing = {"v": 1, "files": {name: len(data) for name, data in files.items()}}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, data in [*sorted(files.items()), (LISTING, canonical_json(listing))]:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o644
            tar.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def unpack_bundle(bundle: Path, sha256: str, folder: Path) -> None:
    """Unpack a bundle to ``folder`` by rename; FileError if its hash differs, or OSError."""
    data = read_bounded(bundle, _LIMIT)
    if sha256_hex(data) != sha256:
        raise FileError(f"{bundle} does not have the hash in its release's stamp.json", _NO_BUNDLE)
    temp = folder.with_name(f".tmp-{uuid.uuid4().hex}")
    try:
        _write(data, temp)
        with contextlib.suppress(FileNotFoundError):
            folder.replace(temp.with_suffix(".old"))  # incomplete: files were deleted
        temp.replace(folder)
    except OSError:
        if find_damage(folder):  # else another job unpacked the same first
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
                raise FileError(f"a bundle holds {member.name!r}, no plain file", _NO_BUNDLE)
            write_new(folder / path, stream.read())


def find_damage(folder: Path) -> str:
    """Return the first damage of an unpacked bundle, or ''; compares the files' sizes only."""
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
"""Seconds after its last use at which an unpacked release is deleted from its node."""


def find_node_copy(release: ReleasePaths, environ: Mapping[str, str], uid: int) -> tuple[Path, str]:
    """Unpack the release on this node; return (folder to run from, reason if the shared one)."""
    try:
        sha256 = str(read_json(release.stamp)["parcel_sha256"])
    except (OSError, FileError, KeyError) as error:
        return release.root, f"the release has no bundle ({error!r})"
    reason = "no folder on this node can be used"
    for parent in _node_folders(environ):
        try:
            private = _private_folder(parent, uid)
            folder = private / f"{release.root.name}-{sha256[:12]}"
            if find_damage(folder):
                unpack_bundle(release.parcel, sha256, folder)
            os.utime(folder)
            _delete_old(private, folder.stat().st_mtime)
            return folder, ""
        except (OSError, FileError) as error:
            reason = f"{parent}: {error}"
    return release.root, reason


def _node_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield temporary folders on this node's own disk, best first."""
    paths = (environ.get(name) for name in ("SLURM_TMPDIR", "TMPDIR"))
    yield from (Path(path) for path in paths if path and os.path.isabs(path))  # noqa: PTH117 - text
    yield Path("/tmp")  # noqa: S108 - the folder below it is private, and checked


def _private_folder(parent: Path, uid: int) -> Path:
    """Return ``parent/daddy-<uid>``, made if missing; FileError if others can use the folder."""
    folder = parent / f"daddy-{uid}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o700)
    status = folder.lstat()
    own = stat.S_ISDIR(status.st_mode) and status.st_uid == uid
    if not own or stat.S_IMODE(status.st_mode) & 0o077:
        raise FileError(f"{folder} is not a private folder of this user", f"remove {folder}")
    return folder


def _delete_old(private: Path, now: float) -> None:
    """Delete releases and unfinished temporary folders that no job has used for a month."""
    for path in private.iterdir():
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < now - _OLD_S:
                shutil.rmtree(path)
