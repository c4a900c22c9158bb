"""A laptop's own three keys (pull, push, tunnel), their ``authorized_keys`` lines, their checks.

They are made once and have no passphrase, because no background process can type one. ``restrict``
takes all rights away and a forced command gives one back, so that the keys of a stolen laptop can
read one run's weights and send contributions, and no more. Only a person installs the lines. Each
key is checked over a connection of its own: it must work, and must be refused everything else.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from Daddy.core import run_subprocess
from Daddy.core.atomic_files import create_exclusive, write_atomic
from Daddy.core.errors import DaddyError, FileError, NetworkError, UsageError
from Daddy.core.shared_types import TUNNEL_PORT
from Daddy.weights.laptop.rsync_sftp import FileTransport
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


TUNNEL = (
    f'restrict,port-forwarding,permitlisten="localhost:{TUNNEL_PORT}",permitopen="localhost:1",'
    'command="cat >/dev/null; false"'
)
"""Other spellings refuse ``ssh -R`` or leave ``-L`` open; nothing listens on port 1. The command
keeps a session open until the person leaves, and does nothing."""


@dataclass(frozen=True, slots=True)
class Rrsync:
    """The script that confines rsync to a folder: its command on the cluster and its flags. Without
    rrsync (``command`` empty) a key can be kept from writing, but not from reading elsewhere.
    """

    command: str = "rrsync"
    flags: tuple[str, ...] = ()


def key_line(purpose: str, public: str, folder: str, peer: str, by: str, rrsync: Rrsync) -> str:
    """Return a line for ``authorized_keys``; its comment names purpose and laptop. "pull" reads the
    shared ``folder`` by rsync, or all that the account may read by sftp. "push" adds files to the
    peer's folder below ``inbox/``, which the line's command creates.
    """
    box, reader = f"inbox/{peer}", f"{rrsync.command} -ro {folder}"
    if by == "sftp":
        reader = f"internal-sftp -R -d {folder}"
    writer = " ".join([rrsync.command, "-wo", *rrsync.flags, box])
    options = {
        "pull": f'restrict,command="{reader}"',
        "push": f'restrict,command="cd {folder} && mkdir -p {box} && {writer}"',
        "tunnel": TUNNEL,
    }
    kind, blob = public.split()[:2]
    return f"{options[purpose]} {kind} {blob} daddy-{purpose}@{peer}"


PROBE = ".daddy-setup-was-here"
"""File that a check of the push key leaves in the laptop's own box; mergers read only ``.json``."""
ANSWER_S = 3.0 * CONNECT_S
_MARK = "daddy-ran-this"
_INSTALL_LINE = "append the key's line (below) to authorized_keys, over your own login"
_OLDER = "remove this laptop's older authorized_keys lines: the first line of a key counts"


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """Result of a key's check: usable or not, the finding, and the remedy."""

    good: bool
    finding: str
    fix: str = ""


def check_key(purpose: str, transport: FileTransport) -> KeyCheck:
    """Check the transport's key over a new connection; a DaddyError becomes a bad result."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            with closing(transport):
                finding = _CHECKS[purpose](transport, Path(scratch))
        except DaddyError as error:
            return KeyCheck(good=False, finding=f"{purpose} key: {error.message}", fix=error.fix)
    return KeyCheck(good=True, finding=f"{purpose} key: {finding}")


def _check_pull(transport: FileTransport, scratch: Path) -> str:
    """Raise DaddyError unless the key reads the head, cannot write and runs no command."""
    _refuse_commands(transport.remote)
    exists = transport.fetch("wan/HEAD.json", scratch, 0)
    if _succeeds(lambda: transport.send([_probe(scratch)], "wan")):
        raise UsageError("the key may write, too", _OLDER)
    return "reads, cannot write" + " (no version there yet)" * (not exists)


def _check_push(transport: FileTransport, scratch: Path) -> str:
    """Raise DaddyError unless the key adds files to its inbox folder, and does nothing else."""
    box = transport.remote.within or ""
    _refuse_commands(transport.remote)
    transport.send([_probe(scratch)], box)
    if _succeeds(lambda: transport.fetch(f"{box}/{PROBE}", scratch / "back", 0)):
        raise UsageError("the key may read, too", _OLDER)
    outside = replace(transport, remote=replace(transport.remote, folder="/../..", within=None))
    with closing(outside):
        if _succeeds(lambda: outside.send([_probe(scratch)], "wan")):
            raise UsageError("the key writes outside its inbox folder", _OLDER)
    return f"writes {box} alone"


def _check_tunnel(transport: FileTransport, scratch: Path) -> str:  # noqa: ARG001 - it copies no files
    """Raise DaddyError unless the key listens on the tunnel's port, and does nothing else."""
    listen = ["-o", "ExitOnForwardFailure=yes", "-R", f"{TUNNEL_PORT}:localhost:1"]  # nobody
    remote = transport.remote
    messages = _refuse_commands(remote, listen)
    if "port forwarding refused" in messages or "disabled port forwarding" in messages:
        raise UsageError(
            f"the key may not listen on port {TUNNEL_PORT}",
            f"{_OLDER}; else that host allows no tunnels (AllowTcpForwarding)",
        )
    if taken := "remote port forwarding failed" in messages:
        _refuse_commands(remote)  # ssh had exited before it tried one
    if "prohibited" not in _ssh(remote, ["-W", "localhost:9", "--", remote.login]).stderr:
        raise UsageError("the key opens other ports, too (ssh -L)", _OLDER)
    return f"listens on {TUNNEL_PORT} alone" + " (taken there, at the moment)" * taken


_CHECKS = {"pull": _check_pull, "push": _check_push, "tunnel": _check_tunnel}


def _refuse_commands(remote: Remote, arguments: Sequence[str] = ()) -> str:
    """Log in; return ssh's stderr. Raise DaddyError if the key is refused, or may run a command."""
    result = _ssh(remote, [*arguments, "--", remote.login, f"echo {_MARK}"])
    refused = re.search(r"Permission denied \([a-z,-]*publickey", result.stderr)
    if refused or _used_another_key(result.stderr, remote.key):
        raise NetworkError(f"the key is not installed on {remote.login}", _INSTALL_LINE)
    if _MARK in result.stdout:
        raise UsageError("the key runs commands", _OLDER)
    if "Authenticated to " not in result.stderr:
        messages = [line for line in result.stderr.splitlines() if not line.startswith("debug")]
        raise explain_error("\n".join(messages), remote)
    return result.stderr


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
