"""Where ssh's shared connections have their sockets, for every program of a laptop.

In a private folder with a short path, because socket paths end at about 100 characters. A name
holds login and key: ssh's own ``%C`` leaves the key out, and one key's work would go over another.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path

from Daddy.core.errors import FileError


def master_socket(login: str, port: str, key: str, ssh_config: str) -> Path:
    """The path without an ending; FileError when the folder is not ours alone."""
    text = f"{login} {port} {key} {ssh_config}"
    return _private_folder() / hashlib.sha256(text.encode()).hexdigest()[:8]


def opened_socket(master: Path) -> Path:
    """Where the connection listens that a person opened with ``sync_weights.sh login``."""
    return master.with_suffix(".login")


def _private_folder() -> Path:
    folder = Path("/tmp") / f".daddy-{os.getuid()}"  # noqa: S108 - checked below
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    facts = os.lstat(folder)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise FileError(f"{folder} is not a private folder of yours", f"remove {folder}")
    return folder
