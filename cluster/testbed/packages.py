"""The programs of a test cluster: the system's, else Debian packages unpacked into a folder.

Unpacking touches nothing outside that folder: no file under /etc, no user, no service started, no
root needed. apt itself says which packages this very machine lacks, so the set is right for every
Debian or Ubuntu release.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .apt import STAMP, fetch, library_folders
from .progress import ClusterError

LOGIN_PACKAGES = ("openssh-server", "openssh-client", "openssh-sftp-server", "rsync")
MARIADB = ("mariadb-server-core|mariadb-server-core-10.6|mariadb-server-core-10.5",)
"""The first name that this release of Debian or Ubuntu knows."""
SLURM_PACKAGES = ("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge",
                  "slurmdbd", "slurm-wlm-mysql-plugin", *MARIADB)  # fmt: skip
LOGIN_TOOLS = ("sshd", "ssh", "ssh-keygen", "sftp-server", "rsync")
SLURM_TOOLS = ("munged", "slurmctld", "slurmd", "slurmstepd", "sbatch", "squeue", "scancel",
               "sinfo", "scontrol", "sacct", "sacctmgr", "slurmdbd", "mariadbd")  # fmt: skip
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ELSEWHERE = "/usr/lib/openssh:/usr/libexec/openssh:/usr/lib/ssh:/usr/libexec"


@dataclass(frozen=True)
class Programs:
    """Where every program is, and how those that were unpacked find their libraries."""

    tools: dict[str, str]
    prefix: Path | None
    libraries: tuple[str, ...]
    folder: Path
    """Where missing ones are unpacked, and what is costly to make is kept."""

    @property
    def bin(self) -> str:
        """Folder of the unpacked client programs; empty where all are the system's."""
        return str(self.prefix / "bin") if self.prefix else ""

    def environment(self) -> dict[str, str]:
        """What daemons started directly, not through their client wrappers, need on top."""
        return {"LD_LIBRARY_PATH": ":".join(self.libraries)} if self.libraries else {}

    @property
    def slurm_plugins(self) -> str:
        """``PluginDir`` of unpacked packages; empty for the system's own."""
        owned = self.prefix and str(self.tools.get("slurmctld", "")).startswith(str(self.prefix))
        return (
            next((path for path in self.libraries if path.endswith("slurm-wlm")), "")
            if owned
            else ""
        )


def ensure(folder: Path, *, slurm: bool) -> Programs:
    """Find or fetch all programs. Raises ClusterError naming what is missing."""
    wanted = LOGIN_TOOLS + (SLURM_TOOLS if slurm else ())
    found = find(folder, wanted)
    if not _missing(found, wanted):
        return found
    names = LOGIN_PACKAGES + (SLURM_PACKAGES if slurm else ())
    lacking = f"missing here: {', '.join(_missing(found, wanted))}"
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise ClusterError(lacking, f"install them (Debian's packages: {' '.join(names)})")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with (folder / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _missing(find(folder, wanted), wanted):
                fetch(folder, names)
    except ClusterError as error:
        raise ClusterError(f"{lacking} ({error.what})", error.advice, error.code) from error
    found = find(folder, wanted)
    if _missing(found, wanted):
        raise ClusterError(f"missing here: {', '.join(_missing(found, wanted))}", f"see {folder}")
    return found


def _missing(found: Programs, wanted: Iterable[str]) -> list[str]:
    return [tool for tool in wanted if tool not in found.tools]


def find(folder: Path, wanted: Iterable[str]) -> Programs:
    """Look in the unpacked packages, then on the system."""
    prefix = folder / "root"
    whole = _read(folder / STAMP) == str(prefix)
    libraries = tuple(map(str, library_folders(prefix)))
    own = ":".join(
        str(prefix / place) for place in ("bin", "usr/sbin", "usr/bin", "usr/lib/openssh")
    )
    own = own if whole else "/nonexistent"
    path = f"{own}:{os.environ.get('PATH', '')}:{SYSTEM_PATH}:{_ELSEWHERE}"
    found = {tool: shutil.which(tool, path=path) for tool in wanted}
    tools = {tool: place for tool, place in found.items() if place}
    used = any(place.startswith(str(prefix)) for place in tools.values())
    return Programs(tools, prefix if used else None, libraries if used else (), folder)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
