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
from typing import Any, ClassVar

from Daddy.core import child_process
from Daddy.core.atomic_files import write_atomic
from Daddy.core.errors import DaddyError, FileError, NetworkError, UsageError
from Daddy.core.name_validation import check_peer, new_token
from Daddy.weights.laptop.ssh_login import Remote, explain_ssh_error, known_facts, needs_ssh
from Daddy.weights.store.strict_json import LIMIT

FLAGS = ("--times", "--timeout=30")
PARTIAL = (*FLAGS, "--ignore-existing", "--partial-dir=.part")
NOTHING_THERE = frozenset({23, 24})
LOCAL_FOLDER = 11
UNKNOWN_FLAG = 1
MOST_FILES, TYPICAL_BYTES = 4096, 1024
"""Files of a folder over there that are looked at, and bytes of one."""

SMALL_S = 60.0
SLOWEST_BYTES_PER_S = 16_000
"""A transfer gets the time that a very slow line would need, and a minute."""

INSTALL = (
    "install it: sudo apt install rsync (Debian, Ubuntu), brew install rsync (macOS); "
    "or go without: export SYNC_TRANSPORT=sftp"
)
LAST_WORDS_S = 2.0
"""Seconds that ssh has to say why it ended."""


def time_limit(size: int) -> float:
    """Seconds that a transfer of ``size`` bytes may take."""
    return SMALL_S + size / SLOWEST_BYTES_PER_S


@dataclass(frozen=True)
class FileTransport(ABC):
    """Copies whole files to and from one folder of the cluster, over one shared ssh connection.

    Names are relative to that folder. NetworkError, FileError.
    """

    name: ClassVar[str]
    remote: Remote

    def __str__(self) -> str:
        """The way that files go, for people."""
        transport = self.name.removesuffix("+ssh")
        if self.remote.opened:
            return f"{transport} over the connection that you opened"
        if self.remote.within is None:
            return f"{transport}, with your own login"
        return f"{transport}, with this laptop's key {self.remote.key}"

    def prepare(self) -> None:
        """Before each exchange: see that the connection is alive or will be made anew."""
        self.remote.drop_dead_connection()

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
        self.remote.close()

    def _stopped(self, limit_s: float) -> NetworkError:
        """The error for a far side that is frozen; its connection is given up."""
        self.remote.drop_dead_connection()
        return NetworkError(
            f"{self.remote.login} stopped answering within {limit_s:.0f} s",
            "see whether the line is up; what has arrived is kept",
        )


class RsyncTransport(FileTransport):
    """rsync over one shared ssh connection."""

    name = "rsync+ssh"

    def fetch(self, name: str, into: Path, size: int) -> bool:
        flags = (*(PARTIAL if size else FLAGS), f"--max-size={size or LIMIT}")
        return self._fetch(flags, self._there(name), into, time_limit(size))

    def fetch_small(self, folder: str, into: Path) -> None:
        flags = (*FLAGS, "--recursive", "--ignore-existing", f"--max-size={LIMIT}")
        self._fetch(flags, self._there(f"{folder}/"), into, time_limit(0))

    def _fetch(self, flags: Sequence[str], source: str, into: Path, limit_s: float) -> bool:
        """True if it came, False if nothing is there."""
        into.mkdir(parents=True, exist_ok=True)
        done = self._run([*flags, source, f"{into}/"], limit_s)
        known = done.returncode in NOTHING_THERE or "rrsync error:" in done.stderr  # rrsync's
        if done.returncode and not (known and "No such file" in done.stderr):
            raise self._failure(done)
        return done.returncode == 0

    def send(self, paths: Sequence[Path], folder: str) -> None:
        size = sum(path.stat().st_size for path in paths)
        words = [*FLAGS, "--ignore-existing", *map(str, paths), self._there(f"{folder}/")]
        done = self._run(words, time_limit(size))
        if done.returncode:
            raise self._failure(done)

    def _there(self, name: str) -> str:
        path = self.remote.path(name.removesuffix("/"))
        return f"{self.remote.login}:{path}" + "/" * (name.endswith("/") and path != "/")

    def _run(self, words: Sequence[str], limit_s: float) -> child_process.Completed:
        try:
            return child_process.run_command(
                ["rsync", "-e", self.remote.command(), *words], limit_s
            )
        except child_process.ProgramMissingError as error:
            raise FileError("rsync is not installed on this machine", INSTALL) from error
        except child_process.ProcessTimeoutError as error:
            raise self._stopped(limit_s) from error

    def _failure(self, done: child_process.Completed) -> DaddyError:
        line = next(iter(done.stderr.strip().splitlines()), "no reason was given")
        if done.returncode == LOCAL_FOLDER and "No such file" not in done.stderr:
            return FileError(f"rsync cannot write: {line}", "check space and permissions")
        if done.returncode == UNKNOWN_FLAG:
            return FileError(
                f"this rsync does not know a flag of ours: {line}",
                "please report what `rsync --version` says; until then: export SYNC_TRANSPORT=sftp",
            )
        return explain_ssh_error(done.stderr, self.remote)


class _Pipe(socket.socket):
    """A socket with the name that paramiko asks its channel for, to log by."""

    def get_name(self) -> str:
        return "sftp"


class SftpTransport(FileTransport):
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
        with self._session(time_limit(MOST_FILES * TYPICAL_BYTES)) as sftp:
            for name, size in self._list(sftp, folder).items():
                if name.endswith(".json") and size <= LIMIT and not (into / name).exists():
                    self._get(sftp, f"{folder}/{name}", into, size)

    def send(self, paths: Sequence[Path], folder: str) -> None:
        with self._session(time_limit(sum(path.stat().st_size for path in paths))) as sftp:
            with contextlib.suppress(OSError):  # it is there
                sftp.mkdir(self._there(folder))
            there = self._list(sftp, folder)
            for path in paths:
                if path.name not in there:
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
        write_atomic(into / Path(name).name, data)

    def _list(self, sftp: Any, folder: str) -> dict[str, int]:
        """Plain files of a folder there: name and bytes; {}: there is no folder."""
        try:
            entries = list(islice(sftp.listdir_iter(self._there(folder)), MOST_FILES))
        except FileNotFoundError:
            return {}
        return {entry.filename: entry.st_size for entry in entries if S_ISREG(entry.st_mode or 0)}

    @contextlib.contextmanager
    def _session(self, limit_s: float) -> Iterator[Any]:
        """A paramiko SFTPClient whose ssh is ended after ``limit_s`` seconds."""
        import paramiko

        ours, theirs = socket.socketpair()
        argv = ["ssh", *self.remote.options(), "-s", "--", self.remote.login, "sftp"]
        with ours, theirs, needs_ssh():
            ssh = child_process.spawn_connected(argv, theirs.fileno())
            pipe = _Pipe(fileno=ours.detach())
        too_late = threading.Event()

        def give_up() -> None:
            too_late.set()
            ssh.terminate(LAST_WORDS_S)

        late = threading.Timer(limit_s, give_up)
        late.start()
        try:
            with pipe, paramiko.SFTPClient(pipe) as sftp:
                yield sftp
        except PermissionError as error:
            raise explain_ssh_error(
                f'"{self.remote.folder}": {error.strerror}', self.remote
            ) from error
        except (EOFError, OSError, paramiko.SSHException) as error:
            ssh.wait(LAST_WORDS_S)
            ssh.terminate(LAST_WORDS_S)  # all that it said has been read then
            if too_late.is_set():
                raise self._stopped(limit_s) from error
            raise explain_ssh_error("\n".join(ssh.error_lines()), self.remote) from error
        finally:
            late.cancel()
            ssh.terminate(LAST_WORDS_S)

    def _there(self, name: str) -> str:
        """A confined key begins in its folder, but sees more: its paths are relative to that."""
        path = self.remote.path(name)
        return path if self.remote.within is None else path.removeprefix("/")


TRANSPORTS: Mapping[str, type[FileTransport]] = {"rsync": RsyncTransport, "sftp": SftpTransport}


def choose_transport(
    task: str, remote: Remote, kept: Mapping[str, str], asked: str
) -> FileTransport:
    """Choose the carrier to "pull" or "push"; ``asked`` is the person's ``SYNC_TRANSPORT``, or "".

    The laptop's own key is taken where it was tried, else the person's login. Nothing is connected
    yet. UsageError.
    """
    found = known_facts(remote, kept)
    key, opened = found.get(f"{task}_key"), bool(found.get("opened"))
    by = found.get("pull_by", "rsync") if task == "pull" else "rsync"
    if key and not remote.key and not opened and asked in ("", by):
        box = "" if task == "pull" else f"inbox/{check_peer(found.get('peer', ''))}"
        return TRANSPORTS[by](replace(remote, key=key, within=box))
    if asked and asked not in TRANSPORTS:
        raise UsageError(f"SYNC_TRANSPORT is {asked!r}", "use rsync or sftp")
    return TRANSPORTS[asked or "rsync"](replace(remote, opened=opened))
