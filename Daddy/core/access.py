"""Whether other accounts can read a folder, and what to type where they cannot.

A home with umask 077 is closed to a friend without a word; here it is said which folder, and the
exact line. Looks at modes; changes nothing.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
from pathlib import Path

from Daddy.core.errors import WeightsError
from Daddy.core.shared_paths import JoinedPaths

MOST = 64
"""Entries of a folder that are looked at."""


def opening(folder: Path) -> list[str]:
    """What its owner types so that other accounts can read below ``folder``; [] where they can.

    A folder with an access control list is not judged: only the server knows what it says.
    """
    lines = [
        f"chmod o+x {shlex.quote(str(one))}"
        for one in reversed(folder.parents)
        if not _lets(one, stat.S_IXOTH)
    ]
    if not all(_readable(one) for one in (folder, *_some_below(folder))):
        lines.append(f"chmod -R o+rX {shlex.quote(str(folder))}")
    return lines


def for_one(lines: list[str], account: str) -> list[str]:
    """Pure: the same for one account alone, where the site has access control lists."""
    return [
        line.replace("chmod -R o+rX", f"setfacl -R -m u:{account}:rX")
        .replace("chmod o+x", f"setfacl -m u:{account}:x")
        for line in lines
    ]  # fmt: skip


def check_reach(paths: JoinedPaths) -> None:
    """WeightsError when the folder of the run that is joined cannot be read, with what to do."""
    theirs = paths.theirs.root
    closed = closed_at(theirs)
    if closed is not None:
        raise WeightsError(
            f"{closed} is closed to this account, so {theirs} cannot be joined",
            f"ask its owner to type: chmod o+x {closed} ; chmod -R o+rX {theirs}",
        )
    try:
        paths.run.read_bytes()
    except FileNotFoundError as error:
        raise WeightsError(
            f"{theirs} holds no shared weights yet",
            "the run's owner starts first; collaboration.join names the owner's shared_weights",
        ) from error
    except PermissionError as error:
        raise WeightsError(
            f"{error.filename} is closed to this account",
            f"ask its owner to type: chmod -R o+rX {theirs}",
        ) from error


def make_readable(folder: Path) -> None:
    """Make ``folder``, readable for all whatever the umask; one that is there is left as it is."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)


def closed_at(path: Path) -> Path | None:
    """The first folder on the way to ``path`` that this account may not look into; None: none."""
    for folder in [*reversed(path.parents), path]:
        if folder.is_dir() and not os.access(folder, os.X_OK):
            return folder
    return None


def _some_below(folder: Path) -> list[Path]:
    found: list[Path] = []
    with contextlib.suppress(OSError):
        for one in sorted(folder.iterdir())[:MOST]:
            if one.name in ("RUN.json", "HEAD.json", "peers.json", "merged", "blobs", "peers"):
                found.append(one)
                if one.is_dir():
                    found += sorted(one.iterdir())[:MOST]
    return found


def _readable(path: Path) -> bool:
    folder = path.is_dir()
    return _lets(path, stat.S_IROTH | (stat.S_IXOTH if folder else 0))


def _lets(path: Path, bits: int) -> bool:
    """Whether all accounts have these rights, or a list decides that we cannot read."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return True
    return mode & bits == bits or _has_list(path)


def _has_list(path: Path) -> bool:
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except (OSError, AttributeError):  # none, or no such thing here
        return False
