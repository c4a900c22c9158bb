"""Names that travel between machines: checked before they become part of a path or a command."""

from __future__ import annotations

import re
import secrets

from Daddy.core.errors import UsageError

PEER = re.compile(r"[a-z0-9][a-z0-9-]{1,30}")

SLOT = re.compile(r"slot-\d+")
"""A job of the run's own account."""

FRIENDS_JOB = re.compile(rf"{PEER.pattern}\.slot-\d{{1,2}}")
"""A job of a friend with an account of his own: no laptop and no job of ours has a dot."""

WRITER = re.compile(f"{PEER.pattern}|{FRIENDS_JOB.pattern}")
"""Whoever may stand in a record: a job, a laptop, a friend's job."""


def check_peer(name: str, form: re.Pattern[str] = PEER) -> str:
    """``name`` itself when it can name a peer; UsageError otherwise."""
    if form.fullmatch(name) is None:
        raise UsageError(
            f"{name!r} cannot name a peer",
            "use 2 to 31 of a-z, 0-9 and -, beginning with a letter or digit",
        )
    return name


def to_peer(text: str) -> str:
    """The nearest valid peer name: a host name such as ``Anna's-Mac.local`` becomes ``anna-s-mac``.

    UsageError when nothing valid is left.
    """
    first = text.strip().lower().split(".")[0]
    return check_peer(re.sub(r"[^a-z0-9]+", "-", first).strip("-")[:31])


def new_incarnation() -> str:
    """Eight random hexadecimal digits: one process start of a peer."""
    return secrets.token_hex(4)


def new_token() -> str:
    """Twelve random hexadecimal digits that name one attempt for ever."""
    return secrets.token_hex(6)
