"""The programs a sandbox needs: those of the system, else Debian packages unpacked into a folder.

Unpacking touches nothing outside that folder: no file under /etc, no user, no service started, no
root needed. apt itself says which packages this very machine lacks, so the set is right for every
Debian or Ubuntu release.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .commands import run, run_watched
from .layout import write_text
from .say import SandboxError, say

LOGIN_PACKAGES = ("openssh-server", "openssh-client", "openssh-sftp-server", "rsync")
SLURM_PACKAGES = ("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge")
LOGIN_TOOLS = ("sshd", "ssh", "ssh-keygen", "sftp-server", "rsync")
SLURM_TOOLS = ("munged", "slurmctld", "slurmd", "slurmstepd", "sbatch", "squeue", "scancel",
               "sinfo", "scontrol")  # fmt: skip
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ELSEWHERE = "/usr/lib/openssh:/usr/libexec/openssh:/usr/lib/ssh:/usr/libexec"
DOWNLOAD_S = 300


@dataclass(frozen=True)
class Programs:
    """Where every program is, and how those that were unpacked find their libraries."""

    tools: dict[str, str]
    prefix: Path | None
    libraries: tuple[str, ...]

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
    """Find or fetch all programs. Raises SandboxError naming the first missing component."""
    wanted = LOGIN_TOOLS + (SLURM_TOOLS if slurm else ())
    found = find(folder, wanted)
    missing = [tool for tool in wanted if tool not in found.tools]
    if not missing:
        return found
    names = LOGIN_PACKAGES + (SLURM_PACKAGES if slurm else ())
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise SandboxError(
            f"missing here: {', '.join(missing)}",
            f"install them (Debian calls the packages {' '.join(names)}) and try again",
        )
    fetch(folder, names)
    found = find(folder, wanted)
    missing = [tool for tool in wanted if tool not in found.tools]
    if missing:
        raise SandboxError(
            f"the packages hold no {', '.join(missing)}", f"remove {folder}, try again"
        )
    return found


def find(folder: Path, wanted: Iterable[str]) -> Programs:
    """Look in the unpacked packages, then on the system."""
    prefix = folder / "root"
    libraries = tuple(
        str(path)
        for path in (*sorted(prefix.glob("usr/lib/*-linux-*/slurm-wlm")),
                     *sorted(prefix.glob("usr/lib/*-linux-*")), *sorted(prefix.glob("lib/*-linux-*")))
    )  # fmt: skip
    own = ":".join(
        str(prefix / place) for place in ("bin", "usr/sbin", "usr/bin", "usr/lib/openssh")
    )
    path = f"{own}:{os.environ.get('PATH', '')}:{SYSTEM_PATH}:{_ELSEWHERE}"
    found = {tool: shutil.which(tool, path=path) for tool in wanted}
    tools = {tool: place for tool, place in found.items() if place}
    used = any(place.startswith(str(prefix)) for place in tools.values())
    return Programs(tools, prefix if used else None, libraries if used else ())


def fetch(folder: Path, names: Iterable[str]) -> None:
    """Download what this machine lacks of ``names`` and unpack it below ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "apt.log"
    apt = _apt(folder)
    try:
        lacking = _lacking(apt, names)
    except SandboxError:
        lacking = _refresh_then_lacking(folder, apt, names, log)
    say(f"fetching {len(lacking)} Debian packages into {folder} (nothing else is changed): "
        f"{' '.join(lacking)}")  # fmt: skip
    archives = folder / "debs"
    shutil.rmtree(archives, ignore_errors=True)
    archives.mkdir()
    if not _download(apt, lacking, archives, log):
        _refresh_then_lacking(folder, apt, names, log)
        if not _download(_private(apt, folder), lacking, archives, log):
            raise SandboxError("the packages could not be downloaded", f"see {log}", 8)
    _unpack(folder, archives)
    shutil.rmtree(archives)
    shutil.rmtree(folder / "lists", ignore_errors=True)
    shutil.rmtree(folder / "cache", ignore_errors=True)


def _apt(folder: Path) -> list[str]:
    """apt-get that writes only below ``folder`` (but reads the system's package lists)."""
    command = [
        "apt-get",
        "-q",
        "-o",
        f"Dir::Cache={folder / 'cache'}",
        "-o",
        "Debug::NoLocking=true",
    ]
    (folder / "cache" / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    return [*command, *(["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else [])]


def _private(apt: list[str], folder: Path) -> list[str]:
    return [*apt, "-o", f"Dir::State::lists={folder / 'lists'}"]


def _lacking(apt: list[str], names: Iterable[str]) -> list[str]:
    """Packages apt would install for ``names`` on this machine, dependencies included."""
    plan = run([*apt, "-s", "--no-install-recommends", "install", *names], 60, _quiet())
    return re.findall(r"^Inst (\S+)", plan, re.MULTILINE)


def _refresh_then_lacking(
    folder: Path, apt: list[str], names: Iterable[str], log: Path
) -> list[str]:
    """The same with fresh package lists of our own."""
    say("asking the package mirrors what there is (the system's own lists stay as they are)")
    (folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    private = _private(apt, folder)
    if run_watched("package lists", [*private, "update"], DOWNLOAD_S, folder, log, _quiet()):
        raise SandboxError("no package mirror answered", f"see {log}", 8)
    apt[:] = private
    return _lacking(private, names)


def _download(apt: list[str], names: list[str], archives: Path, log: Path) -> bool:
    command = [*apt, "download", *names]
    return run_watched("packages", command, DOWNLOAD_S, archives, log, _quiet()) == 0


def _unpack(folder: Path, archives: Path) -> None:
    """Unpack into ``root``; give Debian's ``-wlm`` programs the names Slurm looks for."""
    prefix = folder / "root"
    for archive in sorted(archives.glob("*.deb")):
        run(["dpkg-deb", "-x", str(archive), str(prefix)], 60)
    for program in (*prefix.glob("usr/sbin/*-wlm"), *prefix.glob("usr/bin/*-wlm")):
        # Started under its own name a daemon takes itself for something else: nodes lose their GPUs.
        plain = program.with_name(program.name.removesuffix("-wlm"))
        if not plain.exists():
            plain.symlink_to(program.name)
    wrap_clients(prefix)


def wrap_clients(prefix: Path) -> None:
    """``bin/NAME`` for every client: finds its libraries without leaking a variable into jobs."""
    (prefix / "bin").mkdir(exist_ok=True)
    places = [*prefix.glob("usr/lib/*-linux-*/slurm-wlm"), *prefix.glob("usr/lib/*-linux-*"),
              *prefix.glob("lib/*-linux-*")]  # fmt: skip
    libraries = ":".join(map(str, places))
    for program in (*prefix.glob("usr/bin/*"), *prefix.glob("usr/lib/openssh/sftp-server")):
        loader = _loader(program)
        if loader:
            line = f'exec {loader} --library-path "{libraries}" "{program}" "$@"'
            write_text(prefix / "bin" / program.name, f"#!/bin/sh\n{line}\n", 0o755)


def _loader(program: Path) -> str:
    """The dynamic loader an ELF program names; empty for scripts and links that lead nowhere."""
    try:
        with program.open("rb") as file:
            head = file.read(8192)
    except OSError:
        return ""
    match = re.search(rb"/lib[\w/.-]*/ld[\w.-]*\.so\.\d", head) if head[:4] == b"\x7fELF" else None
    return match.group().decode() if match else ""


def _quiet() -> dict[str, str]:
    return {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
