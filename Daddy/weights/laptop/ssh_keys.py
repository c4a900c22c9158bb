"""A laptop's own three keys (pull, push, tunnel), their lines, and their trials.

They are made once and have no passphrase: nothing in the background may ask for one. ``restrict``
takes everything away and a forced command gives one thing back, so that a stolen laptop's keys read
one run's weights and offer contributions to its gate, and no more. Only a person installs the
lines. Each key is tried for real, over a connection of its own: it works, and is refused the rest.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from Daddy.core import child_process
from Daddy.core.atomic_files import create_exclusive, write_atomic
from Daddy.core.errors import DaddyError, FileError, NetworkError, UsageError
from Daddy.core.shared_types import TUNNEL_PORT
from Daddy.weights.laptop.rsync_sftp import FileTransport
from Daddy.weights.laptop.ssh_login import CONNECT_S, Remote, explain_ssh_error, needs_ssh

PURPOSES = ("pull", "push", "tunnel")
"""Names of the private key files; the public one stands beside each, with ``.pub``."""
KEY_S = 30.0


def make_missing_keys(folder: Path, laptop: str) -> bool:
    """Make the keys that are missing in ``folder``; True if any was. FileError.

    What exists is never written over; folder and keys are for their owner alone.
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
    """A new ed25519 key without a passphrase. FileError when ssh is missing or refuses."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    argv = ["-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    _keygen([*argv, "-C", comment] if comment else argv, path)


def _keygen(words: list[str], path: Path) -> str:
    with needs_ssh():
        done = child_process.run_command(["ssh-keygen", *words], KEY_S)
    if done.returncode:
        raise FileError(f"no key in {path}: {done.stderr.strip()}", f"ssh-keygen -f {path}")
    return done.stdout


TUNNEL = (
    f'restrict,port-forwarding,permitlisten="localhost:{TUNNEL_PORT}",permitopen="localhost:1",'
    'command="cat >/dev/null; false"'
)
"""Other spellings refuse ``ssh -R`` or leave ``-L`` open; port 1 is where nobody listens. The
command holds a session open until the person leaves, and does nothing."""


@dataclass(frozen=True, slots=True)
class Rrsync:
    """The script that confines rsync to a folder: how it is called there and the flags it has.

    Without one (``command`` empty) a key can be kept from writing, but not from reading elsewhere.
    """

    command: str = "rrsync"
    flags: tuple[str, ...] = ()


def key_line(purpose: str, public: str, folder: str, peer: str, by: str, rrsync: Rrsync) -> str:
    """A line for ``authorized_keys``; its comment names purpose and laptop, for whoever looks.

    "pull" reads the shared ``folder`` by rsync, or all that the account may read by sftp. "push"
    adds to the peer's own box, which is made anew when a new run has none.
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
"""A file that a push of ``setup`` leaves in the laptop's own box; a merger looks at ``.json``."""
ANSWER_S = 3.0 * CONNECT_S
_MARK = "daddy-ran-this"
_NOT_THERE = "append its line there (below), over a login of your own"
_OLDER = "remove older lines of this laptop there; the first line with a key counts"


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """Result of a trial: usable or not, the observation, and the remedy."""

    good: bool
    what: str
    fix: str = ""


def check_key(purpose: str, carrier: FileTransport) -> KeyCheck:
    """Try the key that the carrier goes by for real, over a connection of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            with closing(carrier):
                done = _TRIALS[purpose](carrier, Path(scratch))
        except DaddyError as error:
            return KeyCheck(good=False, what=f"{purpose} key: {error.message}", fix=error.fix)
    return KeyCheck(good=True, what=f"{purpose} key: {done}")


def _try_pull(carrier: FileTransport, scratch: Path) -> str:
    """Reads the head, cannot write, runs no command."""
    _refuse_commands(carrier.remote)
    there = carrier.fetch("wan/HEAD.json", scratch, 0)
    if _succeeds(lambda: carrier.send([_probe(scratch)], "wan")):
        raise UsageError("it may write, too", _OLDER)
    return "reads, cannot write" + " (no version there yet)" * (not there)


def _try_push(carrier: FileTransport, scratch: Path) -> str:
    """Adds to its own box, writes nowhere else, reads nothing, runs no command."""
    box = carrier.remote.within or ""
    _refuse_commands(carrier.remote)
    carrier.send([_probe(scratch)], box)
    if _succeeds(lambda: carrier.fetch(f"{box}/{PROBE}", scratch / "back", 0)):
        raise UsageError("it may read, too", _OLDER)
    outside = replace(carrier, remote=replace(carrier.remote, folder="/../..", within=None))
    with closing(outside):
        if _succeeds(lambda: outside.send([_probe(scratch)], "wan")):
            raise UsageError("it writes outside its box", _OLDER)
    return f"writes {box} alone"


def _try_tunnel(carrier: FileTransport, scratch: Path) -> str:  # noqa: ARG001 - it carries no files
    """Listens on the tunnel's port over there; opens nothing else, runs no command."""
    listen = ["-o", "ExitOnForwardFailure=yes", "-R", f"{TUNNEL_PORT}:localhost:1"]  # nobody
    remote = carrier.remote
    said = _refuse_commands(remote, listen)
    if "port forwarding refused" in said or "disabled port forwarding" in said:
        raise UsageError(
            f"it may not listen on {TUNNEL_PORT}",
            f"{_OLDER}; else that host allows no tunnels (AllowTcpForwarding)",
        )
    taken = "remote port forwarding failed" in said
    if "prohibited" not in _ssh(remote, ["-W", "localhost:9", "--", remote.login]).stderr:
        raise UsageError("it opens other ports, too (-L)", _OLDER)
    return f"listens on {TUNNEL_PORT} alone" + " (taken there, at the moment)" * taken


_TRIALS = {"pull": _try_pull, "push": _try_push, "tunnel": _try_tunnel}


def _refuse_commands(remote: Remote, words: Sequence[str] = ()) -> str:
    """What ssh says; DaddyError for a key that is refused, or that runs commands."""
    done = _ssh(remote, [*words, "--", remote.login, f"echo {_MARK}"])
    refused = re.search(r"Permission denied \([a-z,-]*publickey", done.stderr)
    if refused or _came_by_another_key(done.stderr, remote.key):
        raise NetworkError("not installed there", _NOT_THERE)
    if _MARK in done.stdout:
        raise UsageError("it runs commands", _OLDER)
    if "Authenticated to " not in done.stderr:
        said = [line for line in done.stderr.splitlines() if not line.startswith("debug")]
        raise explain_ssh_error("\n".join(said), remote)
    return done.stderr


def _came_by_another_key(stderr: str, key: str) -> bool:
    """When ours is refused ssh goes on to the keys of its own config; newer ones say by which."""
    taken = [line for line in stderr.splitlines() if "Server accepts key: /" in line]
    return bool(taken) and f" {key} " not in taken[-1]


def _ssh(remote: Remote, words: Sequence[str]) -> child_process.Completed:
    try:
        return child_process.run_command(["ssh", "-v", *remote.alone(), *words], ANSWER_S)
    except child_process.ProcessTimeoutError as error:
        return child_process.Completed(255, "", error.message)


def _probe(scratch: Path) -> Path:
    path = scratch / PROBE
    write_atomic(path, b"setup of a laptop tried its key\n", durable=False)
    return path


def _succeeds(action: Callable[[], bool | None]) -> bool:
    """True if it ends without an error, and with anything but False."""
    with suppress(DaddyError):
        return action() is not False
    return False
