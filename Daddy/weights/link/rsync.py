"""rsync as a resumable, verified copy: argument lists for the flags that stock macOS has.

macOS ships openrsync or rsync 2.6.9. Files are immutable and named by their hash, so compression is
of no use, and the delta algorithm for one thing only: what a broken transfer left is not sent again
(with ``--whole-file`` all of it was). ``--inplace``, ``--append`` and ``-u`` would show torn files.
rsync's own ``--timeout`` does not fire when the far side is frozen: every call has a wall-clock
limit of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from Daddy.core import process
from Daddy.core.errors import DaddyError, FileError, NetworkError
from Daddy.weights.link.remote import Ssh, explain
from Daddy.weights.records.strict import LIMIT

FLAGS = ("--times", "--timeout=30")
PARTIAL = (*FLAGS, "--ignore-existing", "--partial-dir=.part")
NOTHING_THERE = frozenset({23, 24})
LOCAL_FOLDER = 11
UNKNOWN_FLAG = 1

SMALL_S = 60.0
SLOWEST_BYTES_PER_S = 16_000
"""A transfer gets the time that a very slow line would need, and a minute."""

INSTALL = (
    "install it: sudo apt install rsync (Debian, Ubuntu), brew install rsync (macOS); "
    "or go without: export SYNC_TRANSPORT=sftp"
)


def time_limit(size: int) -> float:
    """Seconds that a transfer of ``size`` bytes may take."""
    return SMALL_S + size / SLOWEST_BYTES_PER_S


class RsyncCarrier:
    """rsync over one shared ssh connection."""

    name = "rsync+ssh"

    def __init__(self, ssh: Ssh) -> None:
        self._ssh = ssh

    @property
    def login(self) -> str:
        return self._ssh.remote.login

    @property
    def folder(self) -> str:
        return self._ssh.remote.folder

    def prepare(self) -> None:
        self._ssh.drop_dead_master()

    def fetch(self, name: str, into: Path, size: int) -> bool:
        into.mkdir(parents=True, exist_ok=True)
        flags = (*(PARTIAL if size else FLAGS), f"--max-size={size or LIMIT}")
        return self._run([*flags, self._there(name), f"{into}/"], time_limit(size), missing_ok=True)

    def fetch_small(self, folder: str, into: Path) -> None:
        into.mkdir(parents=True, exist_ok=True)
        flags = (*FLAGS, "--recursive", "--ignore-existing", f"--max-size={LIMIT}")
        self._run([*flags, self._there(f"{folder}/"), f"{into}/"], time_limit(0), missing_ok=True)

    def send(self, paths: Sequence[Path], folder: str) -> None:
        size = sum(path.stat().st_size for path in paths)
        words = [*FLAGS, "--ignore-existing", *map(str, paths), self._there(f"{folder}/")]
        self._run(words, time_limit(size))

    def close(self) -> None:
        self._ssh.close()

    def _there(self, name: str) -> str:
        path = self._ssh.remote.path(name.removesuffix("/"))
        return f"{self.login}:{path}" + "/" * (name.endswith("/") and path != "/")

    def _run(self, words: Sequence[str], limit_s: float, *, missing_ok: bool = False) -> bool:
        try:
            done = process.run(["rsync", "-e", self._ssh.command(), *words], limit_s)
        except process.ProgramMissingError as error:
            raise FileError("rsync is not installed on this machine", INSTALL) from error
        except process.ProcessTimeoutError as error:
            self._ssh.drop_dead_master()
            raise NetworkError(
                f"{self.login} stopped answering within {limit_s:.0f} s",
                "see whether the line is up; what has arrived is kept",
            ) from error
        if done.returncode == 0:
            return True
        if missing_ok and _nothing_there(done):
            return False
        raise _failure(self._ssh, done)


def _nothing_there(done: process.Completed) -> bool:
    """Said by rsync, or by the rrsync that confines a key."""
    said = done.returncode in NOTHING_THERE or "rrsync error:" in done.stderr
    return said and "No such file" in done.stderr


def _failure(ssh: Ssh, done: process.Completed) -> DaddyError:
    lines = done.stderr.strip().splitlines() or ["no reason was given"]
    if done.returncode == LOCAL_FOLDER and "No such file" not in done.stderr:
        return FileError(f"rsync cannot write: {lines[0]}", "check space and permissions")
    if done.returncode == UNKNOWN_FLAG:
        fix = "please report what `rsync --version` says; until then: export SYNC_TRANSPORT=sftp"
        return FileError(f"this rsync does not know a flag of ours: {lines[0]}", fix)
    return explain(done.stderr, ssh.remote)
