"""A laptop's own three keys (pull, push, tunnel), their lines, and their trials.

They are made once and have no passphrase: nothing in the background may ask for one. ``restrict``
takes everything away and a forced command gives one thing back, so that a stolen laptop's keys read
one run's weights and offer contributions to its gate, and no more. Only a person installs the
lines. Each key is tried for real, over a connection of its own: it works, and is refused the rest.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from Daddy.core import process
from Daddy.core.errors import DaddyError, FileError
from Daddy.core.files import create_exclusive, write_atomic
from Daddy.core.vocabulary import TUNNEL_PORT
from Daddy.weights.laptop.ssh import CONNECT_S, Remote, connect, explain
from Daddy.weights.laptop.transport import Carrier, Way, open_carrier

KEY_S = 30.0


@dataclass(frozen=True, slots=True)
class Keys:
    """Private key files; the public one stands beside each, with ``.pub``."""

    pull: Path
    push: Path
    tunnel: Path


def own_keys(folder: Path, laptop: str) -> tuple[Keys, bool]:
    """The keys in ``folder``, made where one is missing, and whether any was. FileError.

    What exists is never written over; folder and keys are for their owner alone.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    keys = Keys(folder / "pull", folder / "push", folder / "tunnel")
    made = [_ensure(path, f"daddy-{path.name}@{laptop}") for path in (keys.pull, keys.push,
                                                                     keys.tunnel)]  # fmt: skip
    return keys, any(made)


def _ensure(path: Path, comment: str) -> bool:
    missing = not os.path.lexists(path)
    if missing:
        make_key(path, comment)
    path.chmod(0o600)
    if not path.with_suffix(".pub").exists():
        create_exclusive(path.with_suffix(".pub"), f"{_public(path)}\n".encode())
    return missing


def make_key(path: Path, comment: str = "") -> None:
    """A new ed25519 key without a passphrase. FileError when ssh is missing or refuses."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    argv = ["-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    _keygen([*argv, "-C", comment] if comment else argv, path)


def _public(path: Path) -> str:
    return _keygen(["-y", "-P", "", "-f", str(path)], path).strip()


def _keygen(words: list[str], path: Path) -> str:
    try:
        done = process.run(["ssh-keygen", *words], KEY_S)
    except process.ProgramMissingError as error:
        raise FileError("ssh is not installed on this machine", "install openssh-client") from error
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


def pull_line(folder: str, rrsync: Rrsync, by: str) -> str:
    """Reads the shared folder ``by`` rsync, or all that the account may read by sftp."""
    if by == "sftp":
        return f'restrict,command="internal-sftp -R -d {folder}"'
    return f'restrict,command="{rrsync.command} -ro {folder}"'


def push_line(folder: str, peer: str, rrsync: Rrsync) -> str:
    """Adds to the peer's own box, which is made anew when a new run has none."""
    box = f"inbox/{peer}"
    words = " ".join([rrsync.command, "-wo", *rrsync.flags, box])
    return f'restrict,command="cd {folder} && mkdir -p {box} && {words}"'


def with_key(options: str, public: str, purpose: str, laptop: str) -> str:
    """A whole line; its comment names purpose and laptop, so that a person finds it again."""
    kind, blob = public.split()[:2]
    return f"{options} {kind} {blob} daddy-{purpose}@{laptop}"


def append_command(ssh: str, file: str) -> str:
    """The command that a person types to install the lines, over a login of their own."""
    return f"{ssh} 'umask 077; mkdir -p .ssh; cat >>.ssh/authorized_keys' <{file}"


def as_file(lines: Sequence[str]) -> str:
    """The file to append: it begins on a line of its own wherever it is put."""
    return "\n" + "".join(f"{line}\n" for line in lines)


PROBE = ".daddy-setup-was-here"
"""A file that a push of ``setup`` leaves in the laptop's own box; a merger looks at ``.json``."""
ANSWER_S = 3.0 * CONNECT_S
_MARK = "daddy-ran-this"
_NOT_THERE = "append its line there (below), over a login of your own"
_OLDER = "remove older lines of this laptop there; the first line with a key counts"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a trial: usable or not, the observation, and the remedy."""

    good: bool
    what: str
    fix: str = ""


def try_pull(way: Way, scratch: Path) -> Verdict:
    """Reads the head, cannot write, runs no command."""
    if trouble := _runs_commands(way.remote, "pull"):
        return trouble
    with _carrier(way) as carrier:
        try:
            there = carrier.fetch("wan/HEAD.json", scratch, 0)
        except DaddyError as error:
            return Verdict(good=False, what=f"pull key: {error.message}", fix=error.fix)
        if _done(carrier, _probe(scratch), "wan"):
            return Verdict(good=False, what="pull key: it may write, too", fix=_OLDER)
    return Verdict(
        good=True, what="pull key: reads, cannot write" + " (no version there yet)" * (not there)
    )


def try_push(way: Way, scratch: Path) -> Verdict:
    """Adds to its own box, writes nowhere else, reads nothing, runs no command."""
    box = way.remote.within or ""
    if trouble := _runs_commands(way.remote, "push"):
        return trouble
    with _carrier(way) as carrier:
        try:
            carrier.send([_probe(scratch)], box)
        except DaddyError as error:
            return Verdict(good=False, what=f"push key: {error.message}", fix=error.fix)
        if _reads(carrier, f"{box}/{PROBE}", scratch / "back"):
            return Verdict(good=False, what="push key: it may read, too", fix=_OLDER)
    outside = replace(way, remote=replace(way.remote, folder="/../..", within=None))
    with _carrier(outside) as carrier:
        if _done(carrier, _probe(scratch), "wan"):
            return Verdict(good=False, what="push key: it writes outside its box", fix=_OLDER)
    return Verdict(good=True, what=f"push key: writes {box} alone")


def try_tunnel(remote: Remote) -> Verdict:
    """Listens on the tunnel's port over there; opens nothing else, runs no command."""
    port = TUNNEL_PORT
    listen = ["-o", "ExitOnForwardFailure=yes", "-R", f"{port}:localhost:1"]  # nobody
    done = _ssh(remote, [*listen, "--", remote.login, f"echo {_MARK}"])
    if trouble := _judged(done, remote, "tunnel"):
        return trouble
    if "port forwarding refused" in done.stderr or "disabled port forwarding" in done.stderr:
        fix = f"{_OLDER}; else that host allows no tunnels (AllowTcpForwarding)"
        return Verdict(good=False, what=f"tunnel key: it may not listen on {port}", fix=fix)
    taken = "remote port forwarding failed" in done.stderr
    other = _ssh(remote, ["-W", "localhost:9", "--", remote.login])
    if "prohibited" not in other.stderr:
        return Verdict(good=False, what="tunnel key: it opens other ports, too (-L)", fix=_OLDER)
    said = f"tunnel key: listens on {port} alone" + " (taken there, at the moment)" * taken
    return Verdict(good=True, what=said)


def _runs_commands(remote: Remote, name: str) -> Verdict | None:
    """The fault of a key that is refused, or that runs commands."""
    return _judged(_ssh(remote, ["--", remote.login, f"echo {_MARK}"]), remote, name)


def _judged(done: process.Completed, remote: Remote, name: str) -> Verdict | None:
    refused = re.search(r"Permission denied \([a-z,-]*publickey", done.stderr)
    if refused or _came_by_another_key(done.stderr, remote.key):
        return Verdict(good=False, what=f"{name} key: not installed there", fix=_NOT_THERE)
    if _MARK in done.stdout:
        return Verdict(good=False, what=f"{name} key: it runs commands", fix=_OLDER)
    if "Authenticated to " not in done.stderr:
        said = [line for line in done.stderr.splitlines() if not line.startswith("debug")]
        error = explain("\n".join(said), remote)
        return Verdict(good=False, what=f"{name} key: {error.message}", fix=error.fix)
    return None


def _came_by_another_key(stderr: str, key: str) -> bool:
    """When ours is refused ssh goes on to the keys of its own config; newer ones say by which."""
    taken = [line for line in stderr.splitlines() if "Server accepts key: /" in line]
    return bool(taken) and f" {key} " not in taken[-1]


def _ssh(remote: Remote, words: Sequence[str]) -> process.Completed:
    try:
        return process.run(["ssh", "-v", *connect(remote).alone(), *words], ANSWER_S)
    except process.ProcessTimeoutError as error:
        return process.Completed(255, "", error.message)


@contextlib.contextmanager
def _carrier(way: Way) -> Iterator[Carrier]:
    carrier = open_carrier(way)
    try:
        yield carrier
    finally:
        carrier.close()


def _probe(scratch: Path) -> Path:
    path = scratch / PROBE
    write_atomic(path, b"setup of a laptop tried its key\n", durable=False)
    return path


def _done(carrier: Carrier, path: Path, folder: str) -> bool:
    try:
        carrier.send([path], folder)
    except DaddyError:
        return False
    return True


def _reads(carrier: Carrier, name: str, into: Path) -> bool:
    try:
        return carrier.fetch(name, into, 0)
    except DaddyError:
        return False
