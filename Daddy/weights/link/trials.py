"""Each of a laptop's keys does what it is for, and is seen to be refused the rest.

Tried for real, over connections of their own: a key whose line is missing, too wide or of another
folder is told from one that works, in words.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from Daddy.core import process
from Daddy.core.errors import DaddyError
from Daddy.core.files import write_atomic
from Daddy.core.vocabulary import TUNNEL_PORT
from Daddy.weights.link.carrier import Carrier
from Daddy.weights.link.remote import CONNECT_S, connect, explain
from Daddy.weights.link.sync_settings import Remote
from Daddy.weights.link.ways import Way, open_carrier

PROBE = ".daddy-setup-was-here"
"""A file that a push of ``setup`` leaves in the laptop's own box; a merger looks at ``.json``."""
ANSWER_S = 3.0 * CONNECT_S
_MARK = "daddy-ran-this"
_NOT_THERE = "append its line there (below), over a login of your own"
_OLDER = "remove older lines of this laptop there; the first line with a key counts"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a key may be used, what was seen, and what to do if not."""

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
    """What is wrong with a key that is refused, or that runs what it was not made for."""
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
