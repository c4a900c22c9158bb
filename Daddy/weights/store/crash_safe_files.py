"""Adapter for crash-safe files: each appears whole or not at all, with a named hook per step.

Like ``Daddy.core.atomic_files``, but temporary files lie in the shared folder's own ``tmp/``
(readers list the other folders), and each step calls a hook, so that a test can kill the process
there: C1 before the temporary file, C2 half written, C3 written, C4 synced, C5 named.
"""

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from Daddy.core.atomic_files import sync_folder
from Daddy.core.friend_accounts import make_readable_folder
from Daddy.core.host_and_processes import host_name

Hook = Callable[[str], None]
"""Called with the point's name, such as "C2:state"; production passes :func:`no_hook`."""


def no_hook(point: str) -> None:
    """Do nothing at any ``point``: the hook outside tests."""


class CrashSafeWriter:
    """Writes files below one shared folder, with temporary files in ``tmp``."""

    def __init__(self, tmp: Path, hook: Hook = no_hook) -> None:
        self._tmp = tmp
        self.hook = hook
        self.world_readable = False
        """True if other accounts read the folder: modes are then as given, whatever the umask."""

    def create(self, path: Path, data: bytes, label: str, mode: int = 0o644) -> bool:
        """Create ``path``; return False when the name exists. ``link`` decides on the file server.
        When the server's reply is lost, the temporary file's link count shows the result.
        """
        temp = self._write(data, label, mode, sync=True)
        try:
            self._in_folder(path, lambda: os.link(temp, path))
            created = True
        except OSError as error:
            created = temp.stat().st_nlink == 2  # noqa: PLR2004 - linked, but the reply was lost
            if not created and not isinstance(error, FileExistsError):
                raise
        finally:
            self.hook(f"C5:{label}")
            with contextlib.suppress(OSError):  # an error here would hide the result
                temp.unlink(missing_ok=True)
        sync_folder(path.parent)
        return created

    def replace(
        self, path: Path, data: bytes, label: str, mode: int = 0o644, *, sync: bool = True
    ) -> None:
        """Replace ``path``: readers see the old bytes or the new ones. Without ``sync`` a power cut
        may lose the file, which is acceptable if the next call writes the file again.
        """
        temp = self._write(data, label, mode, sync=sync)
        with _removed_on_error(temp):
            self._in_folder(path, lambda: os.replace(temp, path))  # noqa: PTH105 - returns None
        self.hook(f"C5:{label}")
        if sync:
            sync_folder(path.parent)

    def _in_folder(self, path: Path, name: Callable[[], None]) -> None:
        """Call ``name``, which links or renames to ``path``; make a missing folder first."""
        try:
            name()
        except FileNotFoundError:
            self._make(path.parent)
            name()

    def _make(self, folder: Path) -> None:
        if not self.world_readable:
            folder.mkdir(parents=True, exist_ok=True)
        elif not folder.is_dir():
            self._make(folder.parent)
            make_readable_folder(folder)

    def _write(self, data: bytes, label: str, mode: int, *, sync: bool) -> Path:
        self.hook(f"C1:{label}")
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
                self.hook(f"{point}:{label}")
            if sync:
                os.fsync(descriptor)
        self.hook(f"C4:{label}")
        return temp


@contextlib.contextmanager
def _removed_on_error(temp: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
