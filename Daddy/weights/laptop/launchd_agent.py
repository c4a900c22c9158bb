"""Adapter for launchd: the plist of an agent that keeps a pull loop alive, its log, its waits.

launchd starts an agent that ended again after some seconds, whatever its exit code, and rotates no
log. So an error that only a person can mend is printed once; the agent then waits until a file
changes with which a person mends it, and ends, so that launchd starts it anew.
"""

import fcntl
import os
import plistlib
import re
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from xml.parsers.expat import ExpatError

from Daddy.core.atomic_files import JSON_LIMIT, read_bounded, write_atomic
from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError

LOG_LIMIT = 1_000_000
"""Bytes of the agent's log, and of its one predecessor, ``NAME.1``."""
LOOK_S = 5.0
_STREAMS = (1, 2)
_KEYS = ("StandardOutPath", "StandardErrorPath")


def find_plist(environ: Mapping[str, str], home: Path) -> Path | None:
    """Return the plist of the agent that this process belongs to, None without one. launchd gives
    its agents their label; a terminal's shell has 0 there, or the name of an application.
    """
    label = environ.get("XPC_SERVICE_NAME", "")
    path = home / "Library" / "LaunchAgents" / f"{label}.plist"
    return path if re.fullmatch(r"[\w.-]+", label) and path.is_file() else None


def bound_log(plist: Path) -> None:
    """Move the last LOG_LIMIT bytes of the agent's log to ``NAME.1`` and empty it, if it has more.
    Nothing is done with a file that is not this process's output.
    """
    with suppress(OSError, ValueError, ExpatError, DaddyError):
        agent = plistlib.loads(read_bounded(plist, JSON_LIMIT))
        for path in {Path(agent[key]) for key in _KEYS if isinstance(agent.get(key), str)}:
            _bound_file(path)


def _bound_file(path: Path) -> None:
    facts = path.stat()
    ours = [number for number in _STREAMS if os.path.samestat(os.fstat(number), facts)]
    if not ours or facts.st_size <= LOG_LIMIT:
        return
    with path.open("rb") as log:
        log.seek(-LOG_LIMIT, os.SEEK_END)
        write_atomic(path.with_name(f"{path.name}.1"), log.read(LOG_LIMIT), durable=False)
    for number in ours:  # then the next line is written at the new end
        fcntl.fcntl(number, fcntl.F_SETFL, fcntl.fcntl(number, fcntl.F_GETFL) | os.O_APPEND)
    os.truncate(path, 0)


class FileWatch:
    """Remembers the state of some files, to wait until one of them changes or appears."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = [*paths]
        self._before = self._marks()

    def wait(self, clock: Clock) -> None:
        """Return once a file is not as it was when this object was made."""
        while self._marks() == self._before:
            clock.wait(threading.Event(), LOOK_S)

    def _marks(self) -> list[tuple[int, int, int] | None]:
        return [_mark(path) for path in self._paths]


def _mark(path: Path) -> tuple[int, int, int] | None:
    with suppress(OSError):
        facts = path.stat()
        return facts.st_mtime_ns, facts.st_ino, facts.st_size
    return None
