"""The carrier without rsync: SFTP, for machines that have none. Slower to begin, no resuming."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from Daddy.core.errors import NetworkError
from Daddy.core.ssh.login import Host
from Daddy.core.ssh.sftp import Sftp, open_sftp
from Daddy.weights.link.remote import HostKeyChangedError
from Daddy.weights.link.sync_settings import Remote
from Daddy.weights.records.strict import LIMIT


class SftpCarrier:
    """One connection, made at the first use and again after it broke."""

    name = "sftp"

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._open: Sftp | None = None

    @property
    def login(self) -> str:
        return self._remote.login

    @property
    def folder(self) -> str:
        return self._remote.folder

    def prepare(self) -> None:
        """A connection of its own for each exchange: a sleeping laptop leaves none half open."""
        self.close()

    def fetch(self, name: str, into: Path, size: int) -> bool:
        into.mkdir(parents=True, exist_ok=True)
        return self._sftp().fetch(self._there(name), into / Path(name).name, size or LIMIT)

    def fetch_small(self, folder: str, into: Path) -> None:
        into.mkdir(parents=True, exist_ok=True)
        for name in self._sftp().names(self._there(folder)):
            if name.endswith(".json") and not (into / name).exists():
                self._sftp().fetch(self._there(f"{folder}/{name}"), into / name, LIMIT)

    def send(self, paths: Sequence[Path], folder: str) -> None:
        there = set(self._sftp().names(self._there(folder)))
        for path in paths:
            if path.name not in there:
                self._sftp().send(path, self._there(f"{folder}/{path.name}"))

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
        self._open = None

    def _there(self, name: str) -> str:
        """A confined key begins in its folder, but sees more: its paths are relative to that."""
        path = self._remote.path(name)
        return path if self._remote.within is None else path.removeprefix("/")

    def _sftp(self) -> Sftp:
        if self._open is None:
            remote = self._remote
            host = Host(remote.host, remote.user, remote.port, remote.key, remote.ssh_config)
            self._open = _opened(replace(host, agent=remote.within is None))
        return self._open


def _opened(host: Host) -> Sftp:
    try:
        return open_sftp(host)
    except NetworkError as error:
        if "another host key" in error.message:
            raise HostKeyChangedError(error.message, error.fix) from error
        raise
