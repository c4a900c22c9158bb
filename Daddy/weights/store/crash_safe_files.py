"""Files that appear whole or not at all, with a name for every instant at which power may fail.

Like ``Daddy.core.atomic_files``, but temporary files lie in the shared folder's own ``tmp/``
(readers list the other folders) and each step announces itself to a hook, so that a test can kill
the process there: C1 before the temporary file, C2 half written, C3 written, C4 synced, C5 named.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from Daddy.core.atomic_files import sync_folder
from Daddy.core.machine_info import host_name

Hook = Callable[[str], None]
"""Called with "C2:state" and the like just before the step's successor; production passes none."""


def no_hook(point: str) -> None:
    """The production hook: nothing happens at ``point``."""


class CrashSafeWriter:
    """Writes below one shared folder."""

    def __init__(self, tmp: Path, hook: Hook = no_hook) -> None:
        self._tmp = tmp
        self.hook = hook
        self.world_readable = False
        """True if other accounts read here: modes are then as named, whatever the umask."""

    def create(self, path: Path, data: bytes, what: str, mode: int = 0o644) -> bool:
        """Create ``path`` unless the name exists; False when someone was first.

        ``link`` decides on the server. When its reply is lost, the link count tells the truth.
        """
        temp = self._write(data, what, mode, sync=True)
        try:
            self._in_folder(path, lambda: os.link(temp, path))
            won = True
        except OSError as error:
            won = temp.stat().st_nlink == 2  # noqa: PLR2004 - it worked, its reply was lost
            if not won and not isinstance(error, FileExistsError):
                raise
        finally:
            self.hook(f"C5:{what}")
            with contextlib.suppress(OSError):  # it would hide who won
                temp.unlink(missing_ok=True)
        sync_folder(path.parent)
        return won

    def replace(
        self, path: Path, data: bytes, what: str, mode: int = 0o644, *, sync: bool = True
    ) -> None:
        """Replace ``path``: readers see the old bytes or the new ones. For hints, beats, repairs.

        Without ``sync`` a power cut may take it along: enough for what the next call writes again.
        """
        temp = self._write(data, what, mode, sync=sync)
        with _removed_on_error(temp):
            self._in_folder(path, lambda: os.replace(temp, path))  # noqa: PTH105 - returns None
        self.hook(f"C5:{what}")
        if sync:
            sync_folder(path.parent)

    def _in_folder(self, path: Path, name: Callable[[], None]) -> None:
        """Give a file its name; its folder is made only where it is missing."""
        try:
            name()
        except FileNotFoundError:
            self._make(path.parent)
            name()

    def _make(self, folder: Path) -> None:
        """The folder, with those above it that are missing."""
        if not self.world_readable:
            folder.mkdir(parents=True, exist_ok=True)
        elif not folder.is_dir():
            self._make(folder.parent)
            with contextlib.suppress(FileExistsError):  # somebody else made it, and chooses
                folder.mkdir()
                folder.chmod(0o755)

    def _write(self, data: bytes, what: str, mode: int, *, sync: bool) -> Path:
        self.hook(f"C1:{what}")
        temp = self._tmp / f"{host_name()}-{os.getpid()}-{uuid.uuid4().hex}"
        flags, half = os.O_WRONLY | os.O_CREAT | os.O_EXCL, len(data) // 2
        try:
            descriptor = os.open(temp, flags, mode)
        except FileNotFoundError:
            self._tmp.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(temp, flags, mode)
        with _removed_on_error(temp), os.fdopen(descriptor, "wb") as stream:
            if self.world_readable:
                os.fchmod(descriptor, mode)
            for point, part in (("C2", data[:half]), ("C3", data[half:])):
                stream.write(part)
                stream.flush()
                self.hook(f"{point}:{what}")
            if sync:
                os.fsync(descriptor)
        self.hook(f"C4:{what}")
        return temp


@contextlib.contextmanager
def _removed_on_error(temp: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
