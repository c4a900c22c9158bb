"""Door to paramiko's SFTP: files where rsync is not installed.

One connection per remote, made by ``login``.
"""

from __future__ import annotations

import contextlib
import stat
from pathlib import Path

import paramiko

from Daddy.core.errors import FileError
from Daddy.core.names import new_token
from Daddy.core.ssh.login import Host, log_in, translated

SILENCE_S = 30.0
"""Seconds without a byte after which a transfer counts as dead."""


class Sftp:
    """Files of one remote account. Not for use by several threads."""

    def __init__(self, client: paramiko.SSHClient, files: paramiko.SFTPClient) -> None:
        self._client = client
        self._files = files

    def fetch(self, source: str, target: Path, limit: int) -> bool:
        """Copy one file here under its name, whole; False when it does not exist.

        FileError when it is larger than ``limit`` bytes.
        """
        temp = target.with_name(f".{target.name}-{new_token()}")
        try:
            with translated():
                size = self._files.stat(source).st_size or 0
                if size > limit:
                    raise FileError(f"{source} is larger than {limit} bytes", "it is not ours")
                self._files.get(source, str(temp))
            temp.replace(target)
        except FileNotFoundError:
            return False
        finally:
            temp.unlink(missing_ok=True)
        return True

    def send(self, source: Path, target: str) -> None:
        """Copy one file there under its name, whole or not at all; its folder is made."""
        folder, _, name = target.rpartition("/")
        temp = f"{folder}/.{name}-{new_token()}"
        with translated():
            with contextlib.suppress(OSError):
                self._files.mkdir(folder)
            self._files.put(str(source), temp, confirm=True)
            self._files.posix_rename(temp, target)

    def names(self, folder: str) -> list[str]:
        """Plain files in a folder there; none when it does not exist."""
        with translated():
            try:
                found = self._files.listdir_attr(folder)
            except FileNotFoundError:
                return []
        return sorted(one.filename for one in found if stat.S_ISREG(one.st_mode or 0))

    def close(self) -> None:
        """End the connection."""
        self._client.close()


def open_sftp(host: Host) -> Sftp:
    """Log in with a key; NetworkError when that fails, for whatever reason."""
    client = log_in(host)
    with translated(host.name):
        files = client.open_sftp()
        channel = files.get_channel()
        if channel is not None:
            channel.settimeout(SILENCE_S)
    return Sftp(client, files)
