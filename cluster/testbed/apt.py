"""Door to apt and dpkg: download Debian packages and unpack them into a folder, nothing more."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from .layout import write_text
from .progress import ClusterError, say
from .run_child import run, run_watched

DOWNLOAD_S = 300
STAMP = "unpacked-at"
"""Names the prefix once it is whole; an interrupted or a moved one is fetched again."""


def library_folders(prefix: Path) -> list[Path]:
    """Where unpacked programs find their libraries."""
    patterns = ("usr/lib/*-linux-*/slurm-wlm", "usr/lib/*-linux-*", "lib/*-linux-*")
    return [found for pattern in patterns for found in sorted(prefix.glob(pattern))]


def fetch(folder: Path, names: Iterable[str]) -> None:
    """Download what this machine lacks of ``names`` and unpack it below ``folder``."""
    log = folder / "apt.log"
    apt = _apt(folder)
    try:
        lacking = _lacking(apt, names)
    except ClusterError:
        lacking = _refresh_then_lacking(folder, apt, names, log)
    say(f"fetching {len(lacking)} Debian packages into {folder} (nothing else is changed): "
        f"{' '.join(lacking)}")  # fmt: skip
    archives = folder / "debs"
    shutil.rmtree(archives, ignore_errors=True)
    archives.mkdir()
    if not _download(apt, lacking, archives, log):
        _refresh_then_lacking(folder, apt, names, log)
        if not _download(_private(apt, folder), lacking, archives, log):
            raise ClusterError("the packages could not be downloaded", f"see {log}", 8)
    _unpack(folder, archives)
    shutil.rmtree(archives)
    shutil.rmtree(folder / "lists", ignore_errors=True)
    shutil.rmtree(folder / "cache", ignore_errors=True)


_NO_HOOKS = """#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""
"""Refreshing our own lists must not make a desktop's hooks refresh theirs."""


def _apt(folder: Path) -> list[str]:
    """apt-get that writes only below ``folder`` (but reads the system's package lists)."""
    (folder / "cache" / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    write_text(folder / "apt.conf", _NO_HOOKS)
    command = ["apt-get", "-q", "-c", str(folder / "apt.conf"), "-o", "Debug::NoLocking=true"]
    command += ["-o", "Acquire::Retries=3"]
    command += ["-o", f"Dir::Cache={folder / 'cache'}"]
    return [*command, *(["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else [])]


def _private(apt: list[str], folder: Path) -> list[str]:
    return [*apt, "-o", f"Dir::State::lists={folder / 'lists'}"]


def _lacking(apt: list[str], names: Iterable[str]) -> list[str]:
    """Packages apt would install for ``names`` on this machine, dependencies included."""
    install = [*apt, "-s", "--no-install-recommends", "install"]
    known = [_first_known(install, name.split("|")) for name in names]
    return re.findall(r"^Inst (\S+)", run([*install, *known], 60, _quiet()), re.MULTILINE)


def _first_known(install: list[str], names: list[str]) -> str:
    """Of several names for one thing the one that this release uses."""
    for name in names[:-1]:
        with contextlib.suppress(ClusterError):
            run([*install, name], 60, _quiet())
            return name
    return names[-1]


def _refresh_then_lacking(
    folder: Path, apt: list[str], names: Iterable[str], log: Path
) -> list[str]:
    """The same with fresh package lists of our own."""
    say("asking the package mirrors what there is (the system's own lists stay as they are)")
    (folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    private = _private(apt, folder)
    if run_watched("package lists", [*private, "update"], DOWNLOAD_S, folder, log, _quiet()):
        raise ClusterError("no package mirror answered", f"see {log}", 8)
    apt[:] = private
    return _lacking(private, names)


def _download(apt: list[str], names: list[str], archives: Path, log: Path) -> bool:
    command = [*apt, "download", *names]
    return run_watched("packages", command, DOWNLOAD_S, archives, log, _quiet()) == 0


def _unpack(folder: Path, archives: Path) -> None:
    """Unpack into ``root``; give Debian's ``-wlm`` programs the names Slurm looks for."""
    prefix = folder / "root"
    (folder / STAMP).unlink(missing_ok=True)
    for archive in sorted(archives.glob("*.deb")):
        run(["dpkg-deb", "-x", str(archive), str(prefix)], 60)
    for program in (*prefix.glob("usr/sbin/*-wlm"), *prefix.glob("usr/bin/*-wlm")):
        # A daemon looks at its own name to know what it is; under this one nodes lose their GPUs.
        plain = program.with_name(program.name.removesuffix("-wlm"))
        if not plain.exists():
            plain.symlink_to(program.name)
    wrap_clients(prefix)
    write_text(folder / STAMP, str(prefix))


def wrap_clients(prefix: Path) -> None:
    """``bin/NAME`` for every client: finds its libraries without leaking a variable into jobs."""
    (prefix / "bin").mkdir(exist_ok=True)
    libraries = ":".join(map(str, library_folders(prefix)))
    for program in (*prefix.glob("usr/bin/*"), *prefix.glob("usr/lib/openssh/sftp-server")):
        loader = _loader(program)
        start = f'{loader} --library-path "{libraries}" "{program}"' if loader else f'"{program}"'
        if program.name in ("scp", "sftp"):
            start += f' -S "{prefix}/bin/ssh"'  # they have /usr/bin/ssh built in
        write_text(prefix / "bin" / program.name, f'#!/bin/sh\nexec {start} "$@"\n', 0o755)


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
