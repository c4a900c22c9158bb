"""rsync as a resumable, verified copy: argument lists for the flags that stock macOS has.

macOS ships openrsync or rsync 2.6.9. Files are whole, immutable and named by their hash, so neither
the delta algorithm nor compression is of use; ``--inplace``, ``--append`` and ``-u`` would show
torn files. rsync's own ``--timeout`` does not fire when the far side is frozen: every call has a
wall-clock limit of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from Daddy.core import process
from Daddy.core.errors import DaddyError, FileError, NetworkError
from Daddy.weights.remote import Ssh, explain

FLAGS = ("--times", "--whole-file", "--timeout=30")
PARTIAL = (*FLAGS, "--ignore-existing", "--partial-dir=.part")
NOTHING_THERE = frozenset({23, 24})
LOCAL_FOLDER = 11

SMALL_S = 60.0
SLOWEST_BYTES_PER_S = 16_000
"""A transfer gets the time that a very slow line would need, and a minute."""

INSTALL = (
    "install it: sudo apt install rsync (Debian, Ubuntu), brew install rsync (macOS), or ask the "
    "people who run this machine"
)


def time_limit(size: int) -> float:
    """Seconds that a transfer of ``size`` bytes may take."""
    return SMALL_S + size / SLOWEST_BYTES_PER_S


def fetch(
    ssh: Ssh, names: Sequence[str], into: Path, *, size: int = 0, resume: bool = False
) -> bool:
    """Copy files (relative to the remote folder) into ``into``; False when there are none.

    With ``resume`` an interrupted transfer goes on where it stopped. NetworkError, FileError.
    """
    into.mkdir(parents=True, exist_ok=True)
    sources = [_there(ssh, name) for name in names]
    flags = PARTIAL if resume else FLAGS
    return _run(ssh, [*flags, *sources, f"{into}/"], time_limit(size), missing_ok=True)


def fetch_folder(ssh: Ssh, name: str, into: Path) -> bool:
    """Copy a remote folder's plain files into ``into``; False when it does not exist."""
    into.mkdir(parents=True, exist_ok=True)
    flags = (*FLAGS, "--recursive", "--ignore-existing", "--max-size=64k")
    return _run(ssh, [*flags, f"{_there(ssh, name)}/", f"{into}/"], SMALL_S, missing_ok=True)


def send(ssh: Ssh, paths: Sequence[Path], folder: str) -> None:
    """Copy files into a remote folder (its parent must exist), whole or not at all."""
    size = sum(path.stat().st_size for path in paths)
    there = f"{_there(ssh, folder)}/"
    _run(ssh, [*FLAGS, "--ignore-existing", *map(str, paths), there], time_limit(size))


def _there(ssh: Ssh, name: str) -> str:
    return f"{ssh.remote.login}:{ssh.remote.folder}/{name}"


def _run(ssh: Ssh, words: Sequence[str], limit_s: float, *, missing_ok: bool = False) -> bool:
    try:
        done = process.run(["rsync", "-e", ssh.command(), *words], limit_s)
    except process.ProgramMissingError as error:
        raise FileError("rsync is not installed on this machine", INSTALL) from error
    except process.ProcessTimeoutError as error:
        ssh.drop_dead_master()
        raise NetworkError(
            f"{ssh.remote.login} stopped answering within {limit_s:.0f} s",
            "see whether the line is up; what has arrived is kept",
        ) from error
    if done.returncode == 0:
        return True
    if missing_ok and done.returncode in NOTHING_THERE and "No such file" in done.stderr:
        return False
    raise _failure(ssh, done)


def _failure(ssh: Ssh, done: process.Completed) -> DaddyError:
    if done.returncode == LOCAL_FOLDER:
        last = done.stderr.strip().splitlines()[0] if done.stderr.strip() else "no reason given"
        return FileError(f"rsync cannot write here: {last}", "check space and permissions")
    if done.returncode == 1:
        return FileError(
            f"this rsync does not know a flag of ours: {done.stderr.strip().splitlines()[0]}",
            "please report its `rsync --version`; until then " + INSTALL,
        )
    return explain(done.stderr, ssh.remote)
