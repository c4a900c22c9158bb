"""Pure: how a job says whose it is: in its name and once more in its comment."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"daddy/(?P<run>[^/]+)/(?P<number>\d+)/(?P<token>[0-9a-f]{12})")
_NAME = re.compile(r"daddy-(?P<run>.+)-(?P<token>[0-9a-f]{12})")
OURS = re.compile(r"daddy[-/]")
"""In every line that tells of a job of any run."""


def job_comment(run_id: str, number: int, token: str) -> str:
    """What travels in ``--comment``: whose the job is, across restarts and lost files."""
    return f"daddy/{run_id}/{number}/{token}"


def job_name(run_id: str, token: str) -> str:
    """What ``squeue`` shows; carries the token a second time."""
    return f"daddy-{run_id}-{token}"


def token_of(run_id: str, name: str, comment: str) -> str | None:
    """The token of a job of run ``run_id``; None when the job is not ours."""
    for pattern, text in ((_COMMENT, comment), (_NAME, name)):
        match = pattern.fullmatch(text)
        if match and match["run"] == run_id:
            return match["token"]
    return None


def run_of(name: str, comment: str) -> str:
    """The run that a job of ours belongs to, whichever it is; empty for somebody else's job."""
    match = _COMMENT.fullmatch(comment) or _NAME.fullmatch(name)
    return match["run"] if match else ""
