"""The stream's token on its one journey: from the login node to the laptop, over ssh.

``setup`` brings it along, so that the viewer and the relay know each other before anybody watches.
It is made there when it is missing, is never printed and never stands on a command line.
"""

from __future__ import annotations

import re
from pathlib import Path

from Daddy.core.files import read_bounded, write_atomic
from Daddy.core.paths import STREAM_TOKEN
from Daddy.weights.link.remote import CONNECT_S, Ssh

_LINE = re.compile(r"[0-9a-f]{64}( [ -~]{0,80})?")
_FILE_LIMIT = 8192
_READ_OR_MAKE = (
    'umask 077; mkdir -p "$(dirname "$1")"; '
    '(set -C; head -c 32 /dev/urandom | od -An -vtx1 | tr -d " \\n" >"$1") 2>/dev/null; cat "$1"'
)
"""Exclusive by noclobber: an existing token stays as it is."""


def fetch_stream_token(ssh: Ssh, home: Path) -> bool:
    """Add the login node's tokens to those in ``home``; False when it gave none.

    A confined key (rrsync) gives none: its owner asks the run's owner for a line.
    """
    words = ["sh", "-c", _READ_OR_MAKE, "token", str(STREAM_TOKEN)]
    done = ssh.run(words, 3.0 * CONNECT_S)
    theirs = [line for line in done.stdout.splitlines() if _LINE.fullmatch(line)]
    if theirs:
        _keep(home / STREAM_TOKEN, theirs)
    return bool(theirs)


def _keep(path: Path, theirs: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    mine = read_bounded(path, _FILE_LIMIT).decode().splitlines() if path.exists() else []
    known = {line.split()[0] for line in mine if line.strip()}
    new = [line for line in theirs if line.split()[0] not in known]
    if new:
        write_atomic(path, ("\n".join([*mine, *new]) + "\n").encode(), mode=0o600)
