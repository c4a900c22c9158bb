"""Finds the programs of a test cluster: the system's, else Debian packages unpacked into a folder.

Unpacking changes nothing outside that folder, starts no service and needs no root. apt computes the
packages that this machine lacks, so the set is right for each release of Debian and Ubuntu.
"""

import fcntl
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .apt import STAMP, fetch_packages, library_folders
from .progress import ClusterError

LOGIN_PACKAGES = ("openssh-server", "openssh-client", "openssh-sftp-server", "rsync")
MARIADB = ("mariadb-server-core|mariadb-server-core-10.6|mariadb-server-core-10.5",)
"""Alternative names; the first that this release of Debian or Ubuntu has is used."""
SLURM_PACKAGES = ("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge",
                  "slurmdbd", "slurm-wlm-mysql-plugin", *MARIADB)  # fmt: skip
LOGIN_TOOLS = ("sshd", "ssh", "ssh-keygen", "sftp-server", "rsync")
SLURM_TOOLS = ("munged", "slurmctld", "slurmd", "slurmstepd", "sbatch", "squeue", "scancel",
               "sinfo", "scontrol", "sacct", "sacctmgr", "slurmdbd", "mariadbd")  # fmt: skip
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ELSEWHERE = "/usr/lib/openssh:/usr/libexec/openssh:/usr/lib/ssh:/usr/libexec"


@dataclass(frozen=True)
class Programs:
    """Holds the path of every program, and the library folders of unpacked ones."""

    tools: dict[str, str]
    prefix: Path | None
    libraries: tuple[str, ...]
    folder: Path
    """Folder of unpacked packages and of the accounting database's copy."""

    @property
    def bin(self) -> str:
        """Folder of the unpacked client programs; empty where all are the system's."""
        return str(self.prefix / "bin") if self.prefix else ""

    def environment(self) -> dict[str, str]:
        """Return variables for unpacked programs that are started without their wrapper."""
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


def find_or_fetch(folder: Path, *, slurm: bool) -> Programs:
    """Find all programs; download missing ones. Raises ClusterError that names those missing."""
    wanted = LOGIN_TOOLS + (SLURM_TOOLS if slurm else ())
    programs = find_programs(folder, wanted)
    if not _missing(programs, wanted):
        return programs
    names = LOGIN_PACKAGES + (SLURM_PACKAGES if slurm else ())
    lacking = f"missing here: {', '.join(_missing(programs, wanted))}"
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise ClusterError(lacking, f"install them (Debian's packages: {' '.join(names)})")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with (folder / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _missing(find_programs(folder, wanted), wanted):
                fetch_packages(folder, names)
    except ClusterError as error:
        raise ClusterError(f"{lacking} ({error.message})", error.remedy, error.code) from error
    programs = find_programs(folder, wanted)
    if missing := _missing(programs, wanted):
        raise ClusterError(f"missing here: {', '.join(missing)}", f"see {folder}")
    return programs


def _missing(programs: Programs, wanted: Iterable[str]) -> list[str]:
    return [tool for tool in wanted if tool not in programs.tools]


def find_programs(folder: Path, wanted: Iterable[str]) -> Programs:
    """Find programs in the unpacked packages, then on the system."""
    prefix = folder / "root"
    complete = _read(folder / STAMP) == str(prefix)
    libraries = tuple(map(str, library_folders(prefix)))
    own = ":".join(str(prefix / name) for name in ("bin", "usr/sbin", "usr/bin", "usr/lib/openssh"))
    own = own if complete else "/nonexistent"
    path = f"{own}:{os.environ.get('PATH', '')}:{SYSTEM_PATH}:{_ELSEWHERE}"
    paths = {tool: shutil.which(tool, path=path) for tool in wanted}
    tools = {tool: path for tool, path in paths.items() if path}
    used = any(path.startswith(str(prefix)) for path in tools.values())
    return Programs(tools, prefix if used else None, libraries if used else (), folder)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
