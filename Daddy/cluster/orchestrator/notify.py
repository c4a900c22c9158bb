"""Tells the person something once, by a command of theirs; by default there is none.

The text goes to the command's standard input, what kind of trouble it is about into the variable
``DADDY_KIND``. A command that fails or hangs costs a line in the log and nothing else.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from Daddy.core.errors import DaddyError
from Daddy.core.process import run

TIMEOUT_S = 20.0
_LIMIT = 4000
"""Characters of a message."""


def tell(command: str, kind: str, text: str, timeout_s: float = TIMEOUT_S) -> str:
    """Run ``command`` (as typed in a shell, but without one); in words what went wrong, or ''."""
    if not command.strip():
        return ""
    try:
        argv = shlex.split(command)
        argv[0] = str(Path(argv[0]).expanduser())
        env = {**os.environ, "DADDY_KIND": kind}
        done = run(argv, timeout_s, env=env, stdin=f"{text[:_LIMIT]}\n")
    except (DaddyError, OSError, ValueError) as error:
        return f"controller.notify failed: {error}"
    if done.returncode == 0:
        return ""
    said = (done.stderr.strip().splitlines() or ["without a word"])[-1]
    return f"controller.notify failed: exit code {done.returncode}: {said[:300]}"
