"""A release on the node's own disk: private, checked by hash, used again by the next job there.

Falls back to the shared copy, with the reason, wherever anything is not as it should be: a job that
runs from a slow disk is better than none.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from Daddy.core.errors import FileError
from Daddy.core.files import read_json
from Daddy.core.parcel import faults, unpack
from Daddy.core.paths import ReleasePaths

_OLD_S = 30 * 86_400.0
"""Longest time a release that no job starts from any more is kept on a node."""


def nearest(release: ReleasePaths, environ: Mapping[str, str], uid: int) -> tuple[Path, str]:
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
            if faults(folder):
                unpack(release.parcel, sha256, folder)
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
