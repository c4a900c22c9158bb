"""Adapter for rsync and SFTP: carries files between a laptop and the cluster.

macOS ships openrsync or rsync 2.6.9, so the flags are those that both know. Files are immutable and
named by their hash: compression is of no use, and the delta algorithm only resumes what a broken
transfer left. ``--inplace``, ``--append`` and ``-u`` would show torn files. rsync's own
``--timeout`` does not fire when the far side is frozen: every call has a wall-clock limit of ours.

A key that ``setup`` tried is used at the remote where it was tried. A key that a person names
(``SYNC_SSH_KEY``), another remote or another transport goes by that; without ``setup`` ssh decides.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from Daddy.core import process
from Daddy.core.errors import DaddyError, FileError, NetworkError, UsageError
from Daddy.core.names import check_peer, new_token
from Daddy.weights.laptop.ssh import Remote, Ssh, connect, explain, found_out
from Daddy.weights.store.strict_json import LIMIT

FLAGS = ("--times", "--timeout=30")
PARTIAL = (*FLAGS, "--ignore-existing", "--partial-dir=.part")
NOTHING_THERE = frozenset({23, 24})
LOCAL_FOLDER = 11
UNKNOWN_FLAG = 1
LS_WORDS = 9
"""Of a line of ``ls -ln``: mode, links, owner, group, bytes, three of the time, name."""

SMALL_S = 60.0
SLOWEST_BYTES_PER_S = 16_000
"""A transfer gets the time that a very slow line would need, and a minute."""

INSTALL = (
    "install it: sudo apt install rsync (Debian, Ubuntu), brew install rsync (macOS); "
    "or go without: export SYNC_TRANSPORT=sftp"
)


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

    def _execute(
        self, argv: Sequence[str], limit_s: float, install: str, stdin: str | None = None
    ) -> process.Completed:
        """Run a program that moves files. FileError: it is missing; NetworkError: it hangs."""
        try:
            return process.run(argv, limit_s, stdin=stdin)
        except process.ProgramMissingError as error:
            raise FileError(f"{argv[0]} is not installed on this machine", install) from error
        except process.ProcessTimeoutError as error:
            self._ssh.drop_dead_master()
            raise NetworkError(
                f"{self.login} stopped answering within {limit_s:.0f} s",
                "see whether the line is up; what has arrived is kept",
            ) from error


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
        done = self._execute(argv, limit_s, INSTALL)
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


class SftpCarrier(Carrier):
    """OpenSSH's sftp in batches, where rsync is not installed; nothing is resumed."""

    name = "sftp"

    def fetch(self, name: str, into: Path, size: int) -> bool:
        limit = size or LIMIT
        found = self._list(name)
        if any(there > limit for there in found.values()):
            raise FileError(f"{name} is larger than {limit} bytes", "it is not ours")
        return bool(found) and self._get({name: into / Path(name).name}, time_limit(limit))

    def fetch_small(self, folder: str, into: Path) -> None:
        wanted = {
            f"{folder}/{name}": into / name
            for name, size in self._list(folder).items()
            if name.endswith(".json") and size <= LIMIT and not (into / name).exists()
        }
        if wanted:
            self._get(wanted, time_limit(LIMIT * len(wanted)))

    def send(self, paths: Sequence[Path], folder: str) -> None:
        there, token = self._list(folder), new_token()
        batch = [f"-mkdir {_quoted(self._there(folder))}"]
        for path in paths:
            if path.name not in there:
                whole, part = f"{folder}/{path.name}", f"{folder}/.{path.name}-{token}"
                batch.append(f"put {_quoted(str(path))} {_quoted(self._there(part))}")
                batch.append(f"rename {_quoted(self._there(part))} {_quoted(self._there(whole))}")
        self._batch(batch, time_limit(sum(path.stat().st_size for path in paths)))

    def _get(self, wanted: Mapping[str, Path], limit_s: float) -> bool:
        """Copy files here, each whole or not at all; whether all came."""
        parts = {name: path.with_name(f".tmp-{new_token()}") for name, path in wanted.items()}
        for path in wanted.values():
            path.parent.mkdir(parents=True, exist_ok=True)
        gets = (f"-get {_quoted(self._there(n))} {_quoted(str(p))}" for n, p in parts.items())
        try:
            self._batch(list(gets), limit_s)
            for name in [name for name, part in parts.items() if part.exists()]:
                parts[name].replace(wanted[name])
        finally:
            for part in parts.values():
                part.unlink(missing_ok=True)
        return all(path.exists() for path in wanted.values())

    def _list(self, name: str) -> dict[str, int]:
        """Plain files in the folder ``name``, or the file itself: name and bytes; {}: none."""
        done = self._run([f"ls -ln {_quoted(self._there(name))}"], SMALL_S)
        if done.returncode and "not found" not in done.stderr:
            raise explain(done.stderr, self._ssh.remote)
        rows = (line.split() for line in done.stdout.splitlines() if line.startswith("-"))
        return {row[-1].rpartition("/")[2]: int(row[4]) for row in rows if len(row) == LS_WORDS}

    def _batch(self, commands: Sequence[str], limit_s: float) -> None:
        done = self._run(commands, limit_s)
        if done.returncode:
            raise explain(done.stderr, self._ssh.remote)

    def _run(self, commands: Sequence[str], limit_s: float) -> process.Completed:
        argv = ["sftp", "-b", "-", *self._ssh.options(), "--", self.login]
        script = "".join(f"{command}\n" for command in commands)
        return self._execute(argv, limit_s, "install openssh-client", script)

    def _there(self, name: str) -> str:
        """A confined key begins in its folder, but sees more: its paths are relative to that."""
        path = self._ssh.remote.path(name)
        return path if self._ssh.remote.within is None else path.removeprefix("/")


def _quoted(path: str) -> str:
    """A path as sftp's batches take it: neither split nor expanded."""
    return '"' + re.sub(r'([\\"*?\[\]])', r"\\\1", path) + '"'


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
