"""Adapter for rsync and paramiko (SFTP): carries files between a laptop and the cluster.

macOS ships openrsync or rsync 2.6.9, so the flags are those that both know. Files are immutable and
named by their hash: compression is of no use, and the delta algorithm only resumes what a broken
transfer left. ``--inplace``, ``--append`` and ``-u`` would show torn files. rsync's own
``--timeout`` does not fire when the far side is frozen: every call has a wall-clock limit of ours.

A key that ``setup`` tried is used at the remote where it was tried. A key that a person names
(``SYNC_SSH_KEY``), another remote or another transport goes by that; without ``setup`` ssh decides.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from typing import Any

from Daddy.core import process
from Daddy.core.errors import DaddyError, FileError, NetworkError, UsageError
from Daddy.core.files import write_atomic
from Daddy.core.names import check_peer, new_token
from Daddy.weights.laptop.ssh import Remote, Ssh, connect, explain, found_out
from Daddy.weights.store.strict_json import LIMIT

FLAGS = ("--times", "--timeout=30")
PARTIAL = (*FLAGS, "--ignore-existing", "--partial-dir=.part")
NOTHING_THERE = frozenset({23, 24})
LOCAL_FOLDER = 11
UNKNOWN_FLAG = 1
MOST_FILES = 4096
"""Of a folder over there that are looked at."""

SMALL_S = 60.0
SLOWEST_BYTES_PER_S = 16_000
"""A transfer gets the time that a very slow line would need, and a minute."""

INSTALL = (
    "install it: sudo apt install rsync (Debian, Ubuntu), brew install rsync (macOS); "
    "or go without: export SYNC_TRANSPORT=sftp"
)
INSTALL_SSH = "install it: sudo apt install openssh-client (Debian, Ubuntu)"
LAST_WORDS_S = 2.0
"""Seconds that ssh has to say why it ended."""


def time_limit(size: int) -> float:
    """Seconds that a transfer of ``size`` bytes may take."""
    return SMALL_S + size / SLOWEST_BYTES_PER_S


class Carrier(ABC):
    """Copies whole files to and from one folder of the cluster, over one shared ssh connection.

    Names are relative to that folder. NetworkError, FileError.
    """

    name: str

    def __init__(self, ssh: Ssh) -> None:
        self._ssh = ssh

    @property
    def login(self) -> str:
        """``user@host``, for people."""
        return self._ssh.remote.login

    @property
    def folder(self) -> str:
        """The cluster's folder."""
        return self._ssh.remote.folder

    def prepare(self) -> None:
        """Before each exchange: see that the connection is alive or will be made anew."""
        self._ssh.drop_dead_master()

    @abstractmethod
    def fetch(self, name: str, into: Path, size: int) -> bool:
        """Copy one file into a folder here, going on where it stopped; False: there is none.

        ``size``: the bytes that it may have; 0: those of a record.
        """

    @abstractmethod
    def fetch_small(self, folder: str, into: Path) -> None:
        """Copy what is new of a folder of small files; nothing when it does not exist."""

    @abstractmethod
    def send(self, paths: Sequence[Path], folder: str) -> None:
        """Copy files into a folder there, each whole or not at all; what is there stays."""

    def close(self) -> None:
        """End the connection, unless a person opened it."""
        self._ssh.close()


def _stopped(login: str, limit_s: float) -> NetworkError:
    return NetworkError(
        f"{login} stopped answering within {limit_s:.0f} s",
        "see whether the line is up; what has arrived is kept",
    )


class RsyncCarrier(Carrier):
    """rsync over one shared ssh connection."""

    name = "rsync+ssh"

    def fetch(self, name: str, into: Path, size: int) -> bool:
        into.mkdir(parents=True, exist_ok=True)
        flags = (*(PARTIAL if size else FLAGS), f"--max-size={size or LIMIT}")
        return self._run([*flags, self._there(name), f"{into}/"], time_limit(size), missing_ok=True)

    def fetch_small(self, folder: str, into: Path) -> None:
        into.mkdir(parents=True, exist_ok=True)
        flags = (*FLAGS, "--recursive", "--ignore-existing", f"--max-size={LIMIT}")
        self._run([*flags, self._there(f"{folder}/"), f"{into}/"], time_limit(0), missing_ok=True)

    def send(self, paths: Sequence[Path], folder: str) -> None:
        size = sum(path.stat().st_size for path in paths)
        words = [*FLAGS, "--ignore-existing", *map(str, paths), self._there(f"{folder}/")]
        self._run(words, time_limit(size))

    def _there(self, name: str) -> str:
        path = self._ssh.remote.path(name.removesuffix("/"))
        return f"{self.login}:{path}" + "/" * (name.endswith("/") and path != "/")

    def _run(self, words: Sequence[str], limit_s: float, *, missing_ok: bool = False) -> bool:
        argv = ["rsync", "-e", self._ssh.command(), *words]
        try:
            done = process.run(argv, limit_s)
        except process.ProgramMissingError as error:
            raise FileError("rsync is not installed on this machine", INSTALL) from error
        except process.ProcessTimeoutError as error:
            self._ssh.drop_dead_master()
            raise _stopped(self.login, limit_s) from error
        if done.returncode == 0:
            return True
        if missing_ok and _nothing_there(done):
            return False
        raise _failure(self._ssh, done)


def _nothing_there(done: process.Completed) -> bool:
    """Said by rsync, or by the rrsync that confines a key."""
    said = done.returncode in NOTHING_THERE or "rrsync error:" in done.stderr
    return said and "No such file" in done.stderr


def _failure(ssh: Ssh, done: process.Completed) -> DaddyError:
    lines = done.stderr.strip().splitlines() or ["no reason was given"]
    if done.returncode == LOCAL_FOLDER and "No such file" not in done.stderr:
        return FileError(f"rsync cannot write: {lines[0]}", "check space and permissions")
    if done.returncode == UNKNOWN_FLAG:
        fix = "please report what `rsync --version` says; until then: export SYNC_TRANSPORT=sftp"
        return FileError(f"this rsync does not know a flag of ours: {lines[0]}", fix)
    return explain(done.stderr, ssh.remote)


class _Pipe(socket.socket):
    """A socket with the name that paramiko asks its channel for, to log by."""

    def get_name(self) -> str:
        return "sftp"


def _pair() -> tuple[_Pipe, socket.socket]:
    ours, theirs = socket.socketpair()
    return _Pipe(fileno=ours.detach()), theirs


class SftpCarrier(Carrier):
    """paramiko's SFTP over OpenSSH's own connection, where rsync is not installed.

    ssh brings the person's configuration, known hosts and shared connection. Nothing is resumed.
    """

    name = "sftp"

    def fetch(self, name: str, into: Path, size: int) -> bool:
        limit = size or LIMIT
        with self._session(time_limit(limit)) as sftp:
            try:
                there = sftp.stat(self._there(name)).st_size
            except FileNotFoundError:
                return False
            if there > limit:
                raise FileError(f"{name} is larger than {limit} bytes", "it is not ours")
            self._get(sftp, name, into, there)
        return True

    def fetch_small(self, folder: str, into: Path) -> None:
        wanted = {
            name: size
            for name, size in self._list(folder).items()
            if name.endswith(".json") and size <= LIMIT and not (into / name).exists()
        }
        if wanted:
            with self._session(time_limit(sum(wanted.values()))) as sftp:
                for name, size in wanted.items():
                    self._get(sftp, f"{folder}/{name}", into, size)

    def send(self, paths: Sequence[Path], folder: str) -> None:
        there = self._list(folder)
        missing = [path for path in paths if path.name not in there]
        with self._session(time_limit(sum(path.stat().st_size for path in missing))) as sftp:
            with contextlib.suppress(OSError):  # it is there
                sftp.mkdir(self._there(folder))
            for path in missing:
                part = self._there(f"{folder}/.{path.name}-{new_token()}")
                with sftp.open(part, "wb") as file:
                    file.set_pipelined(True)
                    file.write(path.read_bytes())
                sftp.rename(part, self._there(f"{folder}/{path.name}"))

    def _get(self, sftp: Any, name: str, into: Path, size: int) -> None:
        """Copy a file of ``size`` bytes here, whole or not at all."""
        with sftp.open(self._there(name), "rb") as file:
            file.prefetch(size)
            data = file.read(size)
        into.mkdir(parents=True, exist_ok=True)
        write_atomic(into / Path(name).name, data)

    def _list(self, folder: str) -> dict[str, int]:
        """Plain files of a folder there: name and bytes; {}: there is no folder."""
        with self._session(SMALL_S) as sftp:
            try:
                entries = list(islice(sftp.listdir_iter(self._there(folder)), MOST_FILES))
            except FileNotFoundError:
                return {}
        return {entry.filename: entry.st_size for entry in entries if S_ISREG(entry.st_mode or 0)}

    @contextlib.contextmanager
    def _session(self, limit_s: float) -> Iterator[Any]:
        """A paramiko SFTPClient whose ssh is ended after ``limit_s`` seconds."""
        import paramiko

        ours, theirs = _pair()
        argv = ["ssh", *self._ssh.options(), "-s", "--", self.login, "sftp"]
        try:
            ssh = process.converse(argv, theirs.fileno())
        except process.ProgramMissingError as error:
            raise FileError("ssh is not installed on this machine", INSTALL_SSH) from error
        finally:
            theirs.close()
        too_late = threading.Event()

        def give_up() -> None:
            too_late.set()
            ssh.end(LAST_WORDS_S)

        late = threading.Timer(limit_s, give_up)
        late.start()
        try:
            with ours, paramiko.SFTPClient(ours) as sftp:
                yield sftp
        except PermissionError as error:
            raise explain(f'"{self.folder}": {error.strerror}', self._ssh.remote) from error
        except (EOFError, OSError, paramiko.SSHException) as error:
            ssh.wait(LAST_WORDS_S)
            ssh.end(LAST_WORDS_S)  # all that it said has been read then
            raise self._broken(ssh, limit_s, is_late=too_late.is_set()) from error
        finally:
            late.cancel()
            ssh.end(LAST_WORDS_S)

    def _broken(self, ssh: process.Conversation, limit_s: float, *, is_late: bool) -> DaddyError:
        if not is_late:
            return explain("\n".join(ssh.said()), self._ssh.remote)
        self._ssh.drop_dead_master()
        return _stopped(self.login, limit_s)

    def _there(self, name: str) -> str:
        """A confined key begins in its folder, but sees more: its paths are relative to that."""
        path = self._ssh.remote.path(name)
        return path if self._ssh.remote.within is None else path.removeprefix("/")


TRANSPORTS = ("rsync", "sftp")


@dataclass(frozen=True, slots=True)
class Way:
    """A login and what carries files over it (one of ``TRANSPORTS``)."""

    remote: Remote
    transport: str

    def __str__(self) -> str:
        """For people."""
        if self.remote.opened:
            return f"{self.transport} over the connection that you opened"
        if self.remote.within is None:
            return f"{self.transport}, with your own login"
        return f"{self.transport}, with this laptop's key {self.remote.key}"


def way_to_pull(remote: Remote, kept: Mapping[str, str], asked: str) -> Way:
    """The way to read; ``asked`` is the person's ``SYNC_TRANSPORT``, or empty. UsageError."""
    found = found_out(remote, kept)
    by = found.get("pull_by", "rsync")
    if _goes_by_key("pull_key", remote, found) and asked in ("", by):
        return Way(replace(remote, key=found["pull_key"], within=""), by)
    return _own_way(remote, found, asked)


def way_to_push(remote: Remote, kept: Mapping[str, str], asked: str) -> Way:
    """The way to write; UsageError."""
    found = found_out(remote, kept)
    if _goes_by_key("push_key", remote, found) and asked in ("", "rsync"):
        box = f"inbox/{check_peer(found.get('peer', ''))}"
        return Way(replace(remote, key=found["push_key"], within=box), "rsync")
    return _own_way(remote, found, asked)


def _goes_by_key(name: str, remote: Remote, found: Mapping[str, str]) -> bool:
    return bool(found.get(name)) and not remote.key and not found.get("opened")


def _own_way(remote: Remote, found: Mapping[str, str], asked: str) -> Way:
    transport = asked or "rsync"
    if transport not in TRANSPORTS:
        raise UsageError(f"SYNC_TRANSPORT is {transport!r}", "use rsync or sftp")
    return Way(replace(remote, opened=bool(found.get("opened"))), transport)


def open_carrier(way: Way) -> Carrier:
    """The carrier that goes this way; nothing is connected yet."""
    ssh = connect(way.remote)
    return RsyncCarrier(ssh) if way.transport == "rsync" else SftpCarrier(ssh)
