"""Pure: what each key of a laptop may do at the other end, as lines of ``authorized_keys``.

``restrict`` takes everything away; a forced command gives one thing back, so that whoever steals a
laptop's keys reads one run's weights and offers contributions to its gate, and no more. Nobody
but a person installs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from Daddy.core.vocabulary import TUNNEL_PORT

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
    """What a person types to install the lines, over a login of their own."""
    return f"{ssh} 'umask 077; mkdir -p .ssh; cat >>.ssh/authorized_keys' <{file}"


def as_file(lines: Sequence[str]) -> str:
    """The file to append: it begins on a line of its own wherever it is put."""
    return "\n" + "".join(f"{line}\n" for line in lines)
