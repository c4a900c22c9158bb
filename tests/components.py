"""Checks for programs that tests need: a missing one skips the test, or fails it in CI."""

import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from Daddy.core import atomic_files

_SYSTEM = ":/usr/sbin:/usr/local/sbin:/sbin"


def absent(component: str, why: str = "./scripts/test installs it when root") -> NoReturn:
    """Skip the test, or fail it in CI."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"missing component: {component} ({why})")
    pytest.skip(f"missing component: {component} ({why})")


def program(name: str, package: str) -> str:
    """Return the path of an installed program; skip or fail the test without it."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + _SYSTEM)
    return path or absent(package)


class SmallDisk:
    """A folder with room for a megabyte: a file system of its own, or as non-root a mere quota."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ballast = folder, folder / "ballast"

    def fill(self, leave: int = 0) -> None:
        """Leave room for `leave` bytes."""
        with contextlib.suppress(OSError), self.ballast.open("ab", buffering=0) as stream:
            while True:
                stream.write(bytes(4096))
                self.check()
        os.truncate(self.ballast, max(0, self.ballast.stat().st_size - leave))

    def free(self) -> None:
        self.ballast.unlink(missing_ok=True)

    def check(self) -> None:
        """Raise OSError if more than a megabyte is used."""
        used = sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())
        if used > 1 << 20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextlib.contextmanager
def small_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallDisk]:
    """Make `folder` a small disk; without the right to mount one, files are counted at fsync."""
    folder.mkdir()
    disk, mount = SmallDisk(folder), ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]
    mounted = os.getuid() == 0 and subprocess.run(mount, check=False).returncode == 0
    if not mounted:
        monkeypatch.setattr(atomic_files.os, "fsync", lambda _descriptor: disk.check())
    try:
        yield disk
    finally:
        disk.free()
        if mounted:
            subprocess.run(["umount", "--lazy", folder], check=True)
