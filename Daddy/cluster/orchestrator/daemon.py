"""Door to fork: a program that outlives the shell, and whose starter learns whether it came up.

Twice forked and in a session of its own, so that neither the terminal nor the login shell reaches
it; then a fresh interpreter, so that the daemon runs from a release and not from what is being
edited. The child reports over a pipe: one JSON line, ``{"ok": true, ...}`` or an error with its
exit code.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from Daddy.core.errors import DaddyError

_LINE_LIMIT = 16 * 1024


def launch(
    argv: Sequence[str], env: Mapping[str, str], folder: Path, log: Path, timeout_s: float
) -> dict[str, Any]:
    """Start ``argv`` + ``--ready-fd N`` as a daemon in ``folder``, writing to ``log``; its report.

    The folder must hold no package of ours: Python would prefer that to the release on its path.

    DaddyError when it ended, or stayed silent for ``timeout_s`` seconds.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    reading, writing = os.pipe()
    first = os.fork()
    if first == 0:
        _become_daemon([*argv, "--ready-fd", str(writing)], env, folder, log, writing)
    os.close(writing)
    os.waitpid(first, 0)
    try:
        return _read_report(reading, log, timeout_s)
    finally:
        os.close(reading)


def _become_daemon(
    argv: Sequence[str], env: Mapping[str, str], folder: Path, log: Path, keep: int
) -> None:
    """In the child: never returns."""
    with contextlib.suppress(BaseException):
        os.setsid()
        os.chdir(folder)
        if os.fork() == 0:
            os.set_inheritable(keep, True)
            _redirect(log)
            os.execve(argv[0], list(argv), dict(env))  # noqa: S606 - that is the point
    os._exit(0)


def _redirect(log: Path) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)


def _read_report(descriptor: int, log: Path, timeout_s: float) -> dict[str, Any]:
    line = b""
    while not line.endswith(b"\n") and len(line) < _LINE_LIMIT:
        ready, _, _ = select.select([descriptor], [], [], timeout_s)
        chunk = os.read(descriptor, 4096) if ready else b""
        if not chunk:
            said = "it gave no sign of life in time" if not ready else "it ended at once"
            raise DaddyError(f"the controller did not come up: {said}", f"read {log}")
        line += chunk
    report = json.loads(line)
    return dict(report)


def report(descriptor: int | None, facts: Mapping[str, Any]) -> None:
    """In the daemon: tell the starter, once. Without a descriptor nobody waits."""
    if descriptor is not None:
        with contextlib.suppress(OSError):
            os.write(descriptor, (json.dumps(dict(facts)) + "\n").encode())
            os.close(descriptor)
