"""Adapter for rsync, paramiko (SFTP) and ssh: copies files between a laptop and the cluster.

macOS ships openrsync or rsync 2.6.9, so only flags that both know are used. Files are immutable and
named by their hash: compression is of no use, and the delta algorithm only resumes a broken
transfer. ``--inplace``, ``--append`` and ``-u`` would show torn files. rsync's own ``--timeout``
does not fire when the far side is frozen: every call has a wall-clock limit of ours.

A key that ``setup`` checked is used only at the remote where it was checked, and not if the person
names a key (``SYNC_SSH_KEY``) or another transport. Without ``setup`` ssh chooses the key. SFTP is
used where rsync cannot be: ``RsyncUnusableError`` tells the caller.
"""

import contextlib
import os
import re
import shlex
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO, ClassVar, cast

from Daddy.core import run_subprocess
from Daddy.core.atomic_files import write_atomic
from Daddy.core.errors import DaddyError, FileError, NetworkError, UsageError
from Daddy.core.name_validation import check_peer, new_token
from Daddy.weights.laptop.key_receiver import FILE, MARK, MOST_LISTED
from Daddy.weights.laptop.ssh_login import (
    Remote,
    explain_error,
    known_facts,
    needs_ssh,
    telling_line,
)
from Daddy.weights.store.strict_json import LIMIT

FLAGS = ("--times", "--timeout=30")
PARTIAL = (*FLAGS, "--ignore-existing", "--partial-dir=.part")
NOTHING_THERE = frozenset({23, 24})
LOCAL_FOLDER = 11
UNKNOWN_FLAG = 1
UNUSABLE = frozenset({1, 2, 4, 127})
"""Exit codes of rsync: unknown flag, protocol incompatibility, action not supported, no rsync."""
MOST_FILES, TYPICAL_BYTES = 4096, 1024
"""Files of a remote folder that are listed, and typical bytes of one."""

SMALL_S = 60.0
SLOWEST_BYTES_PER_S = 16_000
"""Speed of a very slow line: a transfer may take that long, and a minute more."""

INSTALL = "install it: sudo apt install rsync (Debian, Ubuntu), brew install rsync (macOS)"
LAST_WORDS_S = 2.0
"""Seconds to wait for ssh's last messages after it ended."""


class RsyncUnusableError(FileError):
    """rsync cannot copy between these two machines; SFTP may."""


class DiskFullError(FileError):
    """The local disk is full; there may be room again later."""


def time_limit(size: int) -> float:
    """Return the seconds that a transfer of ``size`` bytes may take."""
    return SMALL_S + size / SLOWEST_BYTES_PER_S


@dataclass(frozen=True)
class FileTransport(ABC):
    """Copies whole files to and from one folder of the cluster, over one shared ssh connection.
    Names are relative to that folder. Methods raise NetworkError and FileError.
    """

    name: ClassVar[str]
    remote: Remote

    def __str__(self) -> str:
        """Return a description for people: transport and the key or login that it uses."""
        transport = self.name.removesuffix("+ssh")
        if self.remote.opened:
            return f"{transport} over the connection that you opened"
        if self.remote.within is None:
            return f"{transport}, with your own login"
        return f"{transport}, with this laptop's key {self.remote.key}"

    def prepare(self) -> None:
        """Close a dead shared connection of ours; NetworkError if the dead one was a person's."""
        self.remote.drop_dead_connection()

    @abstractmethod
    def fetch(self, name: str, into: Path, size: int) -> bool:
        """Copy one file into the local folder ``into``; return False if the cluster has none.
        ``size``: the most bytes that the file may have; 0: those of a record.
        """

    @abstractmethod
    def fetch_small(self, folder: str, into: Path) -> None:
        """Copy new files of a remote folder of small files, if it exists, into ``into``."""

    @abstractmethod
    def send(self, paths: Sequence[Path], folder: str) -> None:
        """Copy files into a remote folder, each whole or not at all; existing remote files stay."""

    def close(self) -> None:
        """End the shared connection, unless a person opened it."""
        self.remote.close()

    def _stopped(self, limit_s: float) -> NetworkError:
        """Close the connection of a remote that does not answer; return the error."""
        self.remote.drop_dead_connection()
        return NetworkError(
            f"{self.remote.login} stopped answering within {limit_s:.0f} s",
            "check the network; complete files are kept",
        )


class RsyncTransport(FileTransport):
    """Copies with rsync over one shared ssh connection."""

    name = "rsync+ssh"

    def fetch(self, name: str, into: Path, size: int) -> bool:
        flags = (*(PARTIAL if size else FLAGS), f"--max-size={size or LIMIT}")
        return self._fetch(flags, self._remote_path(name), into, time_limit(size))

    def fetch_small(self, folder: str, into: Path) -> None:
        flags = (*FLAGS, "--recursive", "--ignore-existing", f"--max-size={LIMIT}")
        self._fetch(flags, self._remote_path(f"{folder}/"), into, time_limit(0))

    def _fetch(self, flags: Sequence[str], source: str, into: Path, limit_s: float) -> bool:
        """Copy ``source`` by rsync; return False if it does not exist on the cluster."""
        into.mkdir(parents=True, exist_ok=True)
        result = self._run([*flags, source, f"{into}/"], limit_s)
        missing = result.returncode in NOTHING_THERE or "rrsync error:" in result.stderr  # rrsync's
        if result.returncode and not (missing and "No such file" in result.stderr):
            raise self._failure(result)
        return result.returncode == 0

    def send(self, paths: Sequence[Path], folder: str) -> None:
        size = sum(path.stat().st_size for path in paths)
        arguments = [*FLAGS, "--ignore-existing", *map(str, paths), self._remote_path(f"{folder}/")]
        result = self._run(arguments, time_limit(size))
        if result.returncode:
            raise self._failure(result)

    def _remote_path(self, name: str) -> str:
        path = self.remote.path(name.removesuffix("/"))
        return f"{self.remote.rsync_login}:{path}" + "/" * (name.endswith("/") and path != "/")

    def _run(self, arguments: Sequence[str], limit_s: float) -> run_subprocess.Completed:
        try:
            return run_subprocess.run_command(
                ["rsync", "-e", self.remote.command(), *arguments], limit_s
            )
        except run_subprocess.ProgramMissingError as error:
            raise RsyncUnusableError("rsync is not installed on this machine", INSTALL) from error
        except run_subprocess.ProcessTimeoutError as error:
            raise self._stopped(limit_s) from error

    def _failure(self, result: run_subprocess.Completed) -> DaddyError:
        line = telling_line(result.stderr)
        full = bool(re.search("No space left|[Qq]uota exceeded", result.stderr))
        if result.returncode == LOCAL_FOLDER and "No such file" not in result.stderr:
            kind = DiskFullError if full else FileError
            return kind(f"rsync cannot write: {line}", "check space and permissions")
        explained = explain_error(result.stderr, self.remote)
        if result.returncode == UNKNOWN_FLAG:
            return RsyncUnusableError(
                f"rsync here or there lacks a flag: {line}", "brew install rsync (macOS)"
            )
        if result.returncode in UNUSABLE or "not installed on" in explained.message:
            return RsyncUnusableError(explained.message, explained.fix)
        return explained


class _Pipe(socket.socket):
    """A socket with the name that paramiko logs for its channel."""

    def get_name(self) -> str:
        return "sftp"


class SftpTransport(FileTransport):
    """Copies with paramiko's SFTP over OpenSSH's own connection, where rsync is not installed. ssh
    uses the person's configuration, known hosts and shared connection. Transfers are not resumed.
    """

    name = "sftp"

    def fetch(self, name: str, into: Path, size: int) -> bool:
        limit = size or LIMIT
        with self._session(time_limit(limit)) as sftp:
            try:
                actual = sftp.stat(self._remote_path(name)).st_size
            except FileNotFoundError:
                return False
            if actual > limit:
                raise FileError(f"{name} is larger than {limit} bytes", "check SYNC_REMOTE_DIR")
            self._copy_file(sftp, name, into, actual)
        return True

    def fetch_small(self, folder: str, into: Path) -> None:
        with self._session(time_limit(MOST_FILES * TYPICAL_BYTES)) as sftp:
            for name, size in self._list(sftp, folder).items():
                if name.endswith(".json") and size <= LIMIT and not (into / name).exists():
                    self._copy_file(sftp, f"{folder}/{name}", into, size)

    def send(self, paths: Sequence[Path], folder: str) -> None:
        with self._session(time_limit(sum(path.stat().st_size for path in paths))) as sftp:
            with contextlib.suppress(OSError):  # it exists
                sftp.mkdir(self._remote_path(folder))
            present = self._list(sftp, folder)
            for path in paths:
                if path.name not in present:
                    part = self._remote_path(f"{folder}/.{path.name}-{new_token()}")
                    with sftp.open(part, "wb") as file:
                        file.set_pipelined(True)
                        file.write(path.read_bytes())
                    sftp.rename(part, self._remote_path(f"{folder}/{path.name}"))

    def _copy_file(self, sftp: Any, name: str, into: Path, size: int) -> None:
        """Copy a remote file of ``size`` bytes into the folder ``into``, whole or not at all."""
        with sftp.open(self._remote_path(name), "rb") as file:
            file.prefetch(size)
            data = file.read(size)
        write_atomic(into / Path(name).name, data)

    def _list(self, sftp: Any, folder: str) -> dict[str, int]:
        """Return plain files of a remote folder: name and bytes; {} if it does not exist."""
        try:
            entries = list(islice(sftp.listdir_iter(self._remote_path(folder)), MOST_FILES))
        except FileNotFoundError:
            return {}
        return {entry.filename: entry.st_size for entry in entries if S_ISREG(entry.st_mode or 0)}

    @contextlib.contextmanager
    def _session(self, limit_s: float) -> Iterator[Any]:
        """Open a paramiko SFTPClient whose ssh is ended after ``limit_s`` seconds."""
        import paramiko

        ours, theirs = socket.socketpair()
        argv = ["ssh", *self.remote.options(), "-s", "--", self.remote.login, "sftp"]
        with ours, theirs, needs_ssh():
            ssh = run_subprocess.spawn_connected(argv, theirs.fileno())
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
            raise explain_error(f'"{self.remote.folder}": {error.strerror}', self.remote) from error
        except (EOFError, OSError, paramiko.SSHException, paramiko.SFTPError) as error:
            ssh.wait(LAST_WORDS_S)
            ssh.terminate(LAST_WORDS_S)  # then all its output has been read
            if too_late.is_set():
                raise self._stopped(limit_s) from error
            garbage = ["is your shell clean?"] * isinstance(error, paramiko.SFTPError)
            raise explain_error("\n".join([*ssh.error_lines(), *garbage]), self.remote) from error
        finally:
            late.cancel()
            ssh.terminate(LAST_WORDS_S)

    def _remote_path(self, name: str) -> str:
        """Return a remote path, relative for a confined key: sftp sees the whole host."""
        path = self.remote.path(name)
        return path if self.remote.within is None else path.removeprefix("/")


@dataclass(frozen=True)
class ReceiverTransport(FileTransport):
    """Copies over the forced command of a laptop's key (``key_receiver``); a fetch is resumed.
    ``command``: the receiver with its arguments, which a person's own login has to run.
    """

    name = "ssh"
    command: str = ""

    def fetch(self, name: str, into: Path, size: int) -> bool:
        limit, target = size or LIMIT, into / Path(name).name
        if size and target.exists():  # an immutable file
            return True
        part = into / ".part" / target.name
        part.parent.mkdir(parents=True, exist_ok=True)
        offset = part.stat().st_size if size and part.exists() else 0
        with self._session("daddy pull", time_limit(limit)) as (_, stream):
            return self._read(stream, name, target, offset, limit)

    def _read(self, stream: BinaryIO, name: str, target: Path, offset: int, limit: int) -> bool:
        part = target.parent / ".part" / target.name
        answer = _ask(stream, f"read {name} {offset}")
        if answer == "none":
            return False
        if not offset <= int(answer) <= limit:
            part.unlink(missing_ok=True)
            raise FileError(f"{name} is larger than {limit} bytes", "check SYNC_REMOTE_DIR")
        with part.open("ab" if offset else "wb") as file:
            _copy_exactly(stream, file, int(answer) - offset)
        part.replace(target)
        return True

    def fetch_small(self, folder: str, into: Path) -> None:
        (into / ".part").mkdir(parents=True, exist_ok=True)
        with self._session("daddy pull", time_limit(MOST_FILES * LIMIT)) as (_, stream):
            entries = [_ask(stream, f"list {folder}")]
            while entries[-1] != "end" and len(entries) <= MOST_LISTED:
                entries.append(_read_answer(stream))
            for size, name in (entry.split() for entry in entries[:-1][:MOST_FILES]):
                small = name.endswith(".json") and int(size) <= LIMIT
                if small and FILE.fullmatch(name) and not (into / name).exists():
                    self._read(stream, f"{folder}/{name}", into / name, 0, LIMIT)

    def send(self, paths: Sequence[Path], folder: str) -> None:
        if self.remote.run and folder != f"inbox/{self.remote.peer}":
            peer, other = self.remote.peer, folder.rpartition("/")[2]
            raise UsageError(
                f"the laptops of the friend {peer} contribute under that name, not as {other}",
                f"play with --user-id {peer}; remove outbox/{other} here",
            )
        self.remote.path(folder)  # the key's own box
        limit_s = time_limit(sum(path.stat().st_size for path in paths))
        with self._session("daddy push", limit_s) as (connection, stream):
            for path in paths:
                self._offer(path, stream)
            connection.shutdown(socket.SHUT_WR)
            _check(_read_answer(stream), "end")

    def _offer(self, path: Path, stream: BinaryIO) -> None:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            answer = _ask(stream, f"{path.name} {size}")
            if _check(answer, f"send {path.name}", f"have {path.name}").startswith("send"):
                _copy_exactly(file, stream, size)
                stream.flush()
                _check(_read_answer(stream), f"took {path.name}")

    @contextlib.contextmanager
    def _session(self, request: str, limit_s: float) -> Iterator[tuple[socket.socket, BinaryIO]]:
        """Open an ssh connection for one request; it is ended after ``limit_s`` seconds."""
        ours, theirs = socket.socketpair()
        if self.command:
            request = f"env {shlex.quote(f'SSH_ORIGINAL_COMMAND={request}')} {self.command}"
        argv = ["ssh", *self.remote.options(), "--", self.remote.login, request]
        with theirs, needs_ssh():
            ssh = run_subprocess.spawn_connected(argv, theirs.fileno())
        late = threading.Timer(limit_s, ssh.terminate, (LAST_WORDS_S,))
        late.start()
        try:
            with ours, cast("BinaryIO", ours.makefile("rwb")) as stream:
                yield ours, stream
        except (EOFError, ValueError, ConnectionError) as error:
            overdue = late.finished.is_set()
            ssh.wait(LAST_WORDS_S)
            ssh.terminate(LAST_WORDS_S)  # then all its output has been read
            if overdue:
                raise self._stopped(limit_s) from error
            raise explain_error("\n".join(ssh.error_lines()), self.remote) from error
        finally:
            late.cancel()
            ssh.terminate(LAST_WORDS_S)


def _read_answer(stream: BinaryIO) -> str:
    """Return the receiver's next answer; a login shell may print text before it. EOFError."""
    while line := stream.readline(LIMIT):
        _, found, answer = line.decode("ascii", "replace").partition(MARK)
        if found:
            return answer.strip()
    raise EOFError


def _ask(stream: BinaryIO, line: str) -> str:
    """Send one line; return the first answer. EOFError."""
    stream.write(f"{line}\n".encode())
    stream.flush()
    return _read_answer(stream)


def _check(answer: str, *expected: str) -> str:
    if answer not in expected:
        raise EOFError
    return answer


def _copy_exactly(source: BinaryIO, target: BinaryIO, size: int) -> None:
    """Copy ``size`` bytes. Raise EOFError if ``source`` has fewer."""
    while size > 0:
        chunk = source.read(min(LIMIT, size))
        if not chunk:
            raise EOFError
        target.write(chunk)
        size -= len(chunk)


TRANSPORTS: Mapping[str, type[FileTransport]] = {"rsync": RsyncTransport, "sftp": SftpTransport}
KEY_TRANSPORTS: Mapping[str, type[FileTransport]] = {**TRANSPORTS, "receiver": ReceiverTransport}
"""Transports of a laptop's keys, as ``setup`` saves them."""


def try_transport(transport: FileTransport, scratch: Path) -> DaddyError | None:
    """Send one byte into the account's home and fetch it, with the flags of all transfers; return
    the error, or None. The file there is removed again.
    """
    home = replace(transport, remote=replace(transport.remote, folder="."))
    folder, path = f".daddy-{new_token()}", scratch / "byte"
    write_atomic(path, b"1", durable=False)
    try:
        home.send([path], folder)
        home.fetch_small(folder, scratch / "small")
        if not home.fetch(f"{folder}/{path.name}", scratch / "back", 1):
            return NetworkError(f"a file sent to {home.remote.login} is not there", "try again")
    except DaddyError as error:
        return error
    finally:
        with contextlib.suppress(run_subprocess.ProcessTimeoutError):
            home.remote.run_command(["rm", "-rf", folder], SMALL_S)
    return None


def refuse_unknown_transport(asked: str) -> None:
    """Raise UsageError for a ``SYNC_TRANSPORT`` other than rsync, sftp or ""."""
    if asked and asked not in TRANSPORTS:
        raise UsageError(f"SYNC_TRANSPORT is {asked!r}", "use rsync or sftp")


def in_own_folder(remote: Remote, folder: str, peer: str) -> Remote:
    """Return ``remote`` with the own ``folder`` of a friend ``peer`` of the owner of its run."""
    return replace(remote, folder=folder, run=remote.folder, peer=peer)


def receiver_command(receiver: str, purpose: str, remote: Remote) -> str:
    """Return the command that runs the receiver on the cluster, whose words need no quotes."""
    words = [receiver, purpose, remote.folder, remote.peer, remote.run]
    return " ".join(filter(None, words))


def choose_transport(
    task: str, remote: Remote, saved: Mapping[str, str], asked: str
) -> FileTransport:
    """Choose the transport for ``task`` ("pull" or "push"); ``asked``: the person's
    ``SYNC_TRANSPORT`` or "". The laptop's own key is used if ``setup`` checked it, the person's
    login otherwise. No connection is made. Raise UsageError for an unknown transport.
    """
    refuse_unknown_transport(asked)
    facts = known_facts(remote, saved)
    asked = asked or facts.get("transport", "")
    key, opened = facts.get(f"{task}_key"), bool(facts.get("opened"))
    by = facts.get(f"{task}_by", "rsync")
    friend = task == "push" and bool(facts.get("own_folder"))
    if friend:
        remote = in_own_folder(remote, facts["own_folder"], check_peer(facts.get("peer", "")))
    if key and not remote.key and not opened and (asked in ("", by) or by == "receiver"):
        box = "" if task == "pull" else f"inbox/{check_peer(facts.get('peer', ''))}"
        peer = facts.get(f"{task}_peer", remote.peer)
        return KEY_TRANSPORTS[by](replace(remote, key=key, within=box, peer=peer))
    if friend:
        command = receiver_command(facts.get("receiver", ""), task, remote)
        return ReceiverTransport(replace(remote, opened=opened), command)
    return TRANSPORTS[asked or "rsync"](replace(remote, opened=opened))
