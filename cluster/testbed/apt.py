"""Adapter for apt and dpkg: downloads Debian packages and unpacks them into a folder."""

import contextlib
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from .layout import write_text
from .progress import ClusterError, print_progress
from .run_child import run, run_watched

DOWNLOAD_S = 300
STAMP = "unpacked-at"
"""File with the prefix's path, written last: incomplete or moved prefixes are fetched again."""


def library_folders(prefix: Path) -> list[Path]:
    """Return the library folders of unpacked programs."""
    patterns = ("usr/lib/*-linux-*/slurm-wlm", "usr/lib/*-linux-*", "lib/*-linux-*")
    return [path for pattern in patterns for path in sorted(prefix.glob(pattern))]


def fetch_packages(folder: Path, names: Iterable[str]) -> None:
    """Download the packages of ``names`` that this machine lacks; unpack them below ``folder``."""
    log = folder / "apt.log"
    apt = _apt(folder)
    try:
        lacking = _lacking(apt, names)
    except ClusterError:
        lacking = _refresh_then_lacking(folder, apt, names, log)
    listed = " ".join(lacking)
    print_progress(
        f"fetching {len(lacking)} Debian packages into {folder} (nothing else): {listed}"
    )
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
"""Keeps a refresh of our own package lists from running the system's update hooks."""


def _apt(folder: Path) -> list[str]:
    """Return an apt-get command that writes only below ``folder``, but reads the system's lists."""
    (folder / "cache" / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    write_text(folder / "apt.conf", _NO_HOOKS)
    command = ["apt-get", "-q", "-c", str(folder / "apt.conf"), "-o", "Debug::NoLocking=true"]
    command += ["-o", "Acquire::Retries=3"]
    command += ["-o", f"Dir::Cache={folder / 'cache'}"]
    return [*command, *(["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else [])]


def _private(apt: list[str], folder: Path) -> list[str]:
    return [*apt, "-o", f"Dir::State::lists={folder / 'lists'}"]


def _lacking(apt: list[str], names: Iterable[str]) -> list[str]:
    """List the packages apt would install for ``names`` here, dependencies included."""
    install = [*apt, "-s", "--no-install-recommends", "install"]
    packages = [_first_known(install, name.split("|")) for name in names]
    return re.findall(r"^Inst (\S+)", run([*install, *packages], 60, _quiet()), re.MULTILINE)


def _first_known(install: list[str], names: list[str]) -> str:
    """Return the first of several names of a package that this Debian release has."""
    for name in names[:-1]:
        with contextlib.suppress(ClusterError):
            run([*install, name], 60, _quiet())
            return name
    return names[-1]


def _refresh_then_lacking(
    folder: Path, apt: list[str], names: Iterable[str], log: Path
) -> list[str]:
    """Download private package lists, then do as :func:`_lacking`."""
    print_progress(
        "downloading package lists from the mirrors (the system's own lists stay as they are)"
    )
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
    """Unpack into ``root``; link Debian's ``-wlm`` programs to the names that Slurm expects."""
    prefix = folder / "root"
    (folder / STAMP).unlink(missing_ok=True)
    for archive in sorted(archives.glob("*.deb")):
        run(["dpkg-deb", "-x", str(archive), str(prefix)], 60)
    for program in (*prefix.glob("usr/sbin/*-wlm"), *prefix.glob("usr/bin/*-wlm")):
        # slurmd behaves by its own file name; called slurmd-wlm it finds no GPUs.
        plain = program.with_name(program.name.removesuffix("-wlm"))
        if not plain.exists():
            plain.symlink_to(program.name)
    wrap_clients(prefix)
    write_text(folder / STAMP, str(prefix))


def wrap_clients(prefix: Path) -> None:
    """Write a wrapper ``bin/NAME`` for every client that sets the library path for it alone."""
    (prefix / "bin").mkdir(exist_ok=True)
    libraries = ":".join(map(str, library_folders(prefix)))
    for program in (*prefix.glob("usr/bin/*"), *prefix.glob("usr/lib/openssh/sftp-server")):
        loader = _loader(program)
        start = f'{loader} --library-path "{libraries}" "{program}"' if loader else f'"{program}"'
        if program.name in ("scp", "sftp"):
            start += f' -S "{prefix}/bin/ssh"'  # /usr/bin/ssh is compiled in
        write_text(prefix / "bin" / program.name, f'#!/bin/sh\nexec {start} "$@"\n', 0o755)


def _loader(program: Path) -> str:
    """Return the dynamic loader of an ELF program; empty for scripts and broken links."""
    try:
        with program.open("rb") as file:
            head = file.read(8192)
    except OSError:
        return ""
    match = re.search(rb"/lib[\w/.-]*/ld[\w.-]*\.so\.\d", head) if head[:4] == b"\x7fELF" else None
    return match.group().decode() if match else ""


def _quiet() -> dict[str, str]:
    return {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
