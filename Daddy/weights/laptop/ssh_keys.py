"""A laptop's own three keys (pull, push, tunnel), their ``authorized_keys`` lines, their checks.

They are made once and have no passphrase, because no background process can type one. ``restrict``
takes all rights away and a forced command gives one back, so that the keys of a stolen laptop can
read one run's weights, send contributions and watch, and no more. Only a person installs the lines.
Each key is checked over a connection of its own: it must work, and must be refused all else.
"""

import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from Daddy.core import run_subprocess
from Daddy.core.atomic_files import create_exclusive, write_atomic
from Daddy.core.attach_command import NO_SCRIPT, attach_command, attach_scripts
from Daddy.core.errors import DaddyError, FileError, NetworkError, UsageError
from Daddy.core.humanize import printable_line
from Daddy.core.saved_cluster import SETUP
from Daddy.core.shared_types import TUNNEL_PORT
from Daddy.weights.laptop.key_receiver import MARK, NAME
from Daddy.weights.laptop.rsync_sftp import (
    TRANSPORTS,
    FileTransport,
    receiver_command,
)
from Daddy.weights.laptop.ssh_login import CONNECT_S, Remote, explain_error, needs_ssh

PURPOSES = ("pull", "push", "tunnel")
"""Names of the private key files; each public key lies beside it, with ``.pub``."""
KEY_S = 30.0


def make_missing_keys(folder: Path, laptop: str) -> bool:
    """Make the keys that are missing in ``folder``; return True if any key was missing. Existing
    files are not overwritten; only the owner can read folder and keys. Raise FileError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    missing = [name for name in PURPOSES if not os.path.lexists(folder / name)]
    for name in missing:
        make_key(folder / name, f"daddy-{name}@{laptop}")
    for path in (folder / name for name in PURPOSES):
        path.chmod(0o600)
        if not path.with_suffix(".pub").exists():
            public = _keygen(["-y", "-P", "", "-f", str(path)], path).strip()
            create_exclusive(path.with_suffix(".pub"), f"{public}\n".encode())
    return bool(missing)


def make_key(path: Path, comment: str = "") -> None:
    """Make an ed25519 key without a passphrase. Raise FileError if ssh is missing or refuses."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    argv = ["-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    _keygen([*argv, "-C", comment] if comment else argv, path)


def _keygen(arguments: list[str], path: Path) -> str:
    with needs_ssh():
        result = run_subprocess.run_command(["ssh-keygen", *arguments], KEY_S)
    if result.returncode:
        raise FileError(f"no key in {path}: {result.stderr.strip()}", f"ssh-keygen -f {path}")
    return result.stdout


def key_line(purpose: str, public: str, remote: Remote, receiver: str) -> str:
    """Return a line for ``authorized_keys``; its comment names purpose and laptop. ``receiver``:
    the command that runs key_receiver there. "pull" reads versions and the peer's receipts in the
    folder of ``remote``, "push" adds files to the peer's folder below ``inbox/``. "tunnel" runs a
    relay on ssh's pipes; it forwards nothing: ``ssh -R`` of a path makes a socket anywhere.
    """
    command = receiver_command(receiver, purpose, remote)
    if purpose == "tunnel":
        command = attach_command(attach_scripts(remote.folder)[:1]).replace('"', '\\"')
    kind, blob = public.split()[:2]
    return f'restrict,command="{command}" {kind} {blob} daddy-{purpose}@{remote.peer}'


PROBE = ".daddy-setup-was-here"
"""File that a check of an older pull line tries to write."""
ANSWER_S = 3.0 * CONNECT_S
_MARK = NAME.split()[-1]
_INSTALL_LINE = "append the key's line (below) to authorized_keys, over your own login"
_OLDER = "remove this laptop's older authorized_keys lines: the first line of a key counts"
_REPLACE = "remove its authorized_keys line there and append the new one (below)"


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """Result of a key's check: usable or not, the finding, and the remedy (of a usable key: its
    line is of an older release); ``by``: the transport that works with a pull or push key.
    """

    good: bool
    finding: str
    fix: str = ""
    by: str = ""

    @property
    def old(self) -> bool:
        """True for a line of an older release, which goes on working until it is replaced."""
        return self.fix == _REPLACE


def check_key(purpose: str, transport: FileTransport) -> KeyCheck:
    """Check the transport's key over a new connection; a DaddyError becomes a bad result."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            with closing(transport):
                found = _CHECKS[purpose](transport, Path(scratch))
        except DaddyError as error:
            return KeyCheck(good=False, finding=f"{purpose} key: {error.message}", fix=error.fix)
    return replace(found, finding=f"{purpose} key: {found.finding}")


def _check_pull(transport: FileTransport, scratch: Path) -> KeyCheck:
    """Raise DaddyError unless the key reads the head, cannot write and runs no command."""
    remote = transport.remote
    if not _is_identified("pull", remote):
        return _check_old_pull(remote, scratch)
    exists = transport.fetch("wan/HEAD.json", scratch, 0)
    finding = "reads, cannot write" + " (no version there yet)" * (not exists)
    return KeyCheck(good=True, finding=finding, by="receiver")


def _check_old_pull(remote: Remote, scratch: Path) -> KeyCheck:
    """Check a pull line of an older release: rrsync, or SFTP. Raise DaddyError if it is useless."""
    errors = []
    for by in TRANSPORTS:
        with closing(TRANSPORTS[by](replace(remote, peer=""))) as transport:
            try:
                transport.fetch("wan/HEAD.json", scratch, 0)
            except (NetworkError, FileError) as error:
                errors.append(error)
                continue
            if _succeeds(partial(transport.send, [_probe(scratch)], "wan")):
                raise UsageError("the key may write, too", _OLDER)
        sees = "the whole account" if by == "sftp" else "all of shared_weights"
        return KeyCheck(True, f"reads {sees}: an older line ({by})", _REPLACE, by)
    raise errors[0]


def _check_push(transport: FileTransport, scratch: Path) -> KeyCheck:  # noqa: ARG001 - no files
    """Raise DaddyError unless the key adds files to its inbox folder, and does nothing else."""
    remote = transport.remote
    if not _is_identified("push", remote):
        finding = "an older line (rrsync), which cannot tell its box"
        return KeyCheck(good=False, finding=finding, fix=_REPLACE)
    transport.send([], remote.within or "")
    return KeyCheck(good=True, finding=f"writes {remote.within} alone", by="receiver")


def _is_identified(purpose: str, remote: Remote) -> bool:
    """Return True if the key's line names purpose, peer and folder as expected, False for a line
    of an older release. Raise DaddyError for any other line.
    """
    result = _refuse_commands(remote, request=NAME)
    told = result.stdout.partition(MARK)[2].split("\n")[0].split(" ")
    expected = [purpose, remote.peer, remote.folder, *filter(None, [remote.run])]
    if told == expected:
        _refuse_ports(remote)
        return True
    if len(told) in (3, 4):
        names, wanted = map(_describe_line, (told, expected))
        raise UsageError(f"its line is for {names}, not for {wanted}", _REPLACE_NAME)
    if "receiver" in (messages := _messages(result.stderr)):
        raise explain_error(messages, remote)
    _refuse_commands(remote)
    return False


def _describe_line(words: Sequence[str]) -> str:
    purpose, peer, *folders = words
    return printable_line(f"{purpose} {peer} in {' for the run in '.join(folders)}")


_REPLACE_NAME = f"SYNC_USER_ID=NAME {SETUP}, with the name in that line; or replace the line"


def _refuse_ports(remote: Remote) -> None:
    if "prohibited" not in _ssh(remote, ["-W", "localhost:9", "--", remote.login]).stderr:
        raise UsageError("the key opens other ports, too (ssh -L)", _OLDER)


_OLD_TUNNEL = f"listens on {TUNNEL_PORT}, and can make socket files anywhere: an older line"


def _check_tunnel(transport: FileTransport, scratch: Path) -> KeyCheck:  # noqa: ARG001 - no files
    """Raise DaddyError unless the key runs the relay's script, and does nothing else; accept an
    older line, which listens on the tunnel's port instead.
    """
    remote = transport.remote
    listen = ["-o", "ExitOnForwardFailure=no", "-R", f"{TUNNEL_PORT}:localhost:1"]  # nobody
    result = _refuse_commands(remote, listen)
    _refuse_ports(remote)
    if not any(text in result.stderr for text in _NO_FORWARD):
        return KeyCheck(good=True, finding=_OLD_TUNNEL, fix=_REPLACE, by="port")
    no_relay = result.returncode == NO_SCRIPT
    if no_relay and f" {attach_scripts(remote.folder)[0]} " not in result.stderr:
        raise UsageError("its line is for the relay of another run", _REPLACE)
    if not no_relay and _RELAY not in result.stdout:
        raise UsageError("no relay answers the key", f"{_INSTALL_LINE}; {_OLDER}")
    finding = "watches the run alone" + " (no relay there yet)" * no_relay
    return KeyCheck(good=True, finding=finding, by="attach")


def old_key_lines(facts: Mapping[str, str]) -> list[str]:
    """Return a sentence for each good key of ``facts`` whose line is of an older release."""
    if facts.get("tunnel_key") and facts.get("tunnel_by") != "attach":
        return [f"tunnel key: {_OLD_TUNNEL}; to replace it: {SETUP}"]
    return []


_NO_FORWARD = ("port forwarding refused", "disabled port forwarding")
_RELAY = "daddy-stream-"
"""Beginning of a relay's first line."""
_CHECKS = {"pull": _check_pull, "push": _check_push, "tunnel": _check_tunnel}


def _refuse_commands(
    remote: Remote, arguments: Sequence[str] = (), request: str = f"echo {_MARK}"
) -> run_subprocess.Completed:
    """Log in; return ssh's result. Raise DaddyError if the key is refused, or may run a command."""
    result = _ssh(remote, [*arguments, "--", remote.login, request])
    refused = re.search(r"Permission denied \([a-z,-]*publickey", result.stderr)
    if refused or _used_another_key(result.stderr, remote.key):
        raise NetworkError(f"the key is not installed on {remote.login}", _INSTALL_LINE)
    if _MARK in result.stdout:
        raise UsageError("the key runs commands", _OLDER)
    if "Authenticated to " not in result.stderr:
        raise explain_error(_messages(result.stderr), remote)
    return result


def _messages(stderr: str) -> str:
    """Return what ``ssh -v`` printed, without its own debug lines."""
    return "\n".join(line for line in stderr.splitlines() if not line.startswith("debug"))


def _used_another_key(stderr: str, key: str) -> bool:
    """Return True if ssh fell back to a key of its own config, as newer ssh versions print."""
    taken = [line for line in stderr.splitlines() if "Server accepts key: /" in line]
    return bool(taken) and f" {key} " not in taken[-1]


def _ssh(remote: Remote, arguments: Sequence[str]) -> run_subprocess.Completed:
    try:
        return run_subprocess.run_command(
            ["ssh", "-v", *remote.single_use_options(), *arguments], ANSWER_S
        )
    except run_subprocess.ProcessTimeoutError as error:
        return run_subprocess.Completed(255, "", error.message)


def _probe(scratch: Path) -> Path:
    path = scratch / PROBE
    write_atomic(path, b"setup of a laptop tried its key\n", durable=False)
    return path


def _succeeds(action: Callable[[], bool | None]) -> bool:
    """Return True if ``action`` raises no error and does not return False."""
    with suppress(DaddyError):
        return action() is not False
    return False
