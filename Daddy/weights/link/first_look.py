"""What a person's own login finds over there: rsync, the folder, the script that confines keys.

One command, over the connection that a person opened where there is one, else with the key that
ssh's own settings name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from Daddy.core import process
from Daddy.core.errors import DaddyError, FileError
from Daddy.weights.link.authorized_lines import Rrsync
from Daddy.weights.link.keys import KEY_S
from Daddy.weights.link.remote import CONNECT_S, Ssh, connect, explain
from Daddy.weights.link.stream_token import fetch_stream_token
from Daddy.weights.link.sync_settings import Remote

_PLACES = (
    '"$(command -v rrsync)" "$HOME/bin/rrsync" "$HOME/.local/bin/rrsync" '
    "/usr/share/doc/rsync/support/rrsync /usr/share/rsync/scripts/rrsync"
)
_PROBE = (
    "command -v rsync >/dev/null && echo rsync; "
    f'for f in {_PLACES}; do if [ -f "$f" ] && [ -r "$f" ]; then '
    'by=; [ -x "$f" ] || by="$(sed -n "1s/^#[^/]*//p" "$f") "; flags=; '
    "for w in -munge -no-del -no-overwrite; do "
    'grep -q -e "[\\"\']$w[\\"\']" "$f" && flags="$flags $w"; done; '
    'echo "rrsync $by$f$flags"; break; fi; done; '
    'cd "$1" 2>/dev/null && echo folder; echo looked'
)
"""In one line, because a csh takes no others. A packager may leave the script where it cannot be
run: its first line then says by what."""
UNKNOWN = Rrsync()
_RRSYNC = re.compile(r"rrsync ([A-Za-z0-9_./+-]+(?: [A-Za-z0-9_./+-]+)??)((?: -[a-z-]+)*)")


@dataclass(frozen=True, slots=True)
class Seen:
    """What there is; ``error`` when one's own login found nothing out."""

    error: DaddyError | None = None
    refused: bool = False
    over_opened: bool = False
    rsync: bool = False
    folder: bool = False
    token: bool = False
    rrsync: Rrsync = UNKNOWN


def look(remote: Remote, home: Path) -> Seen:
    """Log in, look, and bring the stream's token home. FileError when ssh is not installed here."""
    opened = connect(replace(remote, opened=True))
    ssh = connect(remote)
    try:
        over_opened = opened.is_open()
        ssh = opened if over_opened else ssh
        ssh.drop_dead_master()
        done = ssh.run(["sh", "-c", _PROBE, "probe", remote.folder], 3.0 * CONNECT_S)
    except process.ProgramMissingError as error:
        raise FileError("ssh is not installed on this machine", "install openssh-client") from error
    try:
        return _judge(done, ssh, home, over_opened=over_opened)
    finally:
        ssh.close()  # the next look is to be a login of its own


def _judge(done: process.Completed, ssh: Ssh, home: Path, *, over_opened: bool) -> Seen:
    if done.returncode == 255:  # noqa: PLR2004 - ssh's own failure
        refused = "Permission denied" in done.stderr
        return Seen(explain(done.stderr, ssh.remote), refused=refused)
    return _seen(done.stdout, ssh, home, over_opened=over_opened)


def _seen(said: str, ssh: Ssh, home: Path, *, over_opened: bool) -> Seen:
    lines = said.splitlines()
    return Seen(
        over_opened=over_opened,
        rsync="rsync" in lines,
        folder="folder" in lines,
        token=fetch_stream_token(ssh, home),
        rrsync=read_rrsync(lines),
    )


def read_rrsync(lines: Sequence[str]) -> Rrsync:
    """What the probe found; as it is usually called where the probe could not look."""
    found = next((match for line in lines if (match := _RRSYNC.fullmatch(line))), None)
    if found is not None:
        return Rrsync(found[1], tuple(found[2].split()))
    return Rrsync("") if "looked" in lines else UNKNOWN


def here(program: str) -> bool:
    """Whether a program can be run on this machine."""
    try:
        process.run([program, "--version"], KEY_S)
    except DaddyError:
        return False
    return True
