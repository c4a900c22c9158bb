"""Adapter for temporary folders that are removed also when this process is killed."""

import contextlib
import os
from pathlib import Path

_REMOVE = 'cat; exec rm -rf -- "$0"'
"""Waits for the end of its input, which comes with the end of the process that holds the pipe."""


class GuardedFolder:
    """A new folder that lives until `remove`, or until this process ends, however it ends.

    A shell outside of our process group waits for that; it starts before the folder is made, so
    the name must be new (`new_token`).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        read, self._write = os.pipe()
        try:
            self._shell = os.posix_spawn(
                "/bin/sh",
                ["sh", "-c", _REMOVE, str(path.absolute())],
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, read, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                setpgroup=0,
            )
        except BaseException:
            os.close(self._write)
            raise
        finally:
            os.close(read)
        try:
            path.mkdir(mode=0o700)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove the folder and all that is in it. A second call does nothing."""
        if self._write >= 0:
            os.close(self._write)
            self._write = -1
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._shell, 0)
