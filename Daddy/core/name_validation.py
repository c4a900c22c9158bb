"""Checks names from other machines before they become part of a path, a command or an object."""

import re
import secrets
from collections.abc import Sequence
from typing import Any

from Daddy.core.errors import UsageError

LONGEST_PEER = 31
PEER = re.compile(rf"[a-z0-9][a-z0-9-]{{1,{LONGEST_PEER - 1}}}")

SLOT = re.compile(r"slot-\d+")
"""A job of the run's own account."""

OWN = re.compile(rf"{SLOT.pattern}|untold")
"""A contributor whose steps are the run's own: a job, or a copy that names none (``restore``)."""

FRIENDS_JOB = re.compile(rf"{PEER.pattern}\.slot-\d{{1,2}}")
"""A job of a friend's account; names of laptops and of our own jobs have no dot."""

WRITER = re.compile(f"{PEER.pattern}|{FRIENDS_JOB.pattern}")
"""A contributor in a record: a job, a laptop or a friend's job."""

SWEEP = re.compile(r"(?=.{1,64}\Z)[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
"""A sweep, which is a folder and the first part of its runs' names."""


def check_peer(name: str, form: re.Pattern[str] = PEER) -> str:
    """Return ``name`` if it can name a peer; UsageError otherwise."""
    if form.fullmatch(name) is None:
        raise UsageError(
            f"{name!r} cannot name a peer",
            "use 2 to 31 of a-z, 0-9 and -, beginning with a letter or digit",
        )
    return name


def check_sweep(name: str) -> str:
    """Return ``name`` if it can name a sweep; UsageError otherwise, without the name."""
    if SWEEP.fullmatch(name) is None:
        raise UsageError(
            "this cannot name a sweep",
            "use 1 to 64 letters, digits, -, _ and single dots, beginning with a letter or digit",
        )
    return name


def to_peer(text: str) -> str:
    """Turn a host name into a peer name (``Anna's-Mac.local``: ``anna-s-mac``). UsageError."""
    first = text.strip().lower().split(".")[0]
    return check_peer(re.sub(r"[^a-z0-9]+", "-", first).strip("-")[:LONGEST_PEER])


def new_incarnation() -> str:
    """Return eight random hexadecimal digits that name one process start of a peer."""
    return secrets.token_hex(4)


def new_token() -> str:
    """Return twelve random hexadecimal digits that name one attempt."""
    return secrets.token_hex(6)


def unique_names(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a dictionary, which would hide a name that occurs twice.
    Raise ValueError for such a name.
    """
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key occurs twice")
    return value
