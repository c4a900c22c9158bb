"""Adapter for the local queue's files: one folder per job; each file has one writer.

The scheduler writes ``job.json`` (the job), ``cancel.json`` (a runner that is still starting would
miss a signal) and ``amend.json`` (the hold of a waiting job). ``local_job`` writes
``process.json`` (its own process id), ``start.json`` (the job's process id and times) and
``end.json``. A folder without ``job.json`` is an unfinished submission. A job runs while it holds a
lock on one of the places ``place-<n>.lock``; the kernel frees it with the job's last process.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import read_json, write_json
from Daddy.core.errors import FileError
from Daddy.core.host_and_processes import ProcessId, is_alive

ENDED = "ended"
"""Name of the folder that ended jobs are moved to."""
BOOT_S = 60.0
"""Seconds after its submission at which a job without ``process.json`` counts as lost."""


@dataclass(frozen=True, slots=True)
class LocalJobFiles:
    """The files of one job of the local queue, in ``folder``."""

    folder: Path

    @property
    def job_id(self) -> int:
        return int(self.folder.name)

    def read_record(self, name: str) -> dict[str, Any] | None:
        """Return the content of ``<name>.json``; None if it is missing or cannot be read."""
        try:
            return self.read_or_raise(name)
        except FileError:
            return None

    def read_or_raise(self, name: str) -> dict[str, Any] | None:
        """Return ``<name>.json``'s content; None if missing or damaged. FileError: disk error."""
        try:
            return read_json(self.folder / f"{name}.json")
        except FileNotFoundError:
            return None
        except FileError as error:
            cause = error.__cause__
            if isinstance(cause, OSError) and not isinstance(cause, NotADirectoryError):
                raise
            return None

    def write(self, name: str, value: dict[str, Any]) -> None:
        write_json(self.folder / f"{name}.json", value)

    def process(self, name: str) -> ProcessId | None:
        """Return the process in ``process.json`` or ``start.json``, None without that file."""
        record = self.read_record(name)
        return None if record is None else ProcessId(record["pid"], record["created"])


def live_jobs(queue: Path) -> Iterator[LocalJobFiles]:
    """Yield the jobs whose folders are not in ``ended/``, in the order of submission."""
    if queue.is_dir():
        folders = (path for path in queue.iterdir() if path.name.isdigit())
        for folder in sorted(folders, key=lambda path: int(path.name)):
            yield LocalJobFiles(folder)


def is_job_ahead(queue: Path, job_id: int, now: float) -> bool:
    """Return True while a job with a smaller number waits for a place."""
    return any(files.job_id < job_id and _waits(files, now) for files in live_jobs(queue))


def is_held(files: LocalJobFiles) -> bool:
    """Return True if ``amend.json`` holds the job: it waits although a place is free."""
    return bool((files.read_record("amend") or {}).get("hold"))


def _waits(files: LocalJobFiles, now: float) -> bool:
    left_queue = any(files.read_record(name) is not None for name in ("start", "end", "cancel"))
    if left_queue or is_held(files):
        return False
    spec, runner = files.read_record("job"), files.process("process")
    if runner is None:
        return spec is not None and now - float(spec["submitted_ts"]) < BOOT_S
    return is_alive(runner)


def new_job(queue: Path) -> LocalJobFiles:
    """Create the folder of the next free job number; no two submitters get the same number."""
    (queue / ENDED).mkdir(parents=True, exist_ok=True)
    names = [path.name for folder in (queue, queue / ENDED) for path in folder.iterdir()]
    number = max((int(name) for name in names if name.isdigit()), default=0)
    while True:
        number += 1
        with contextlib.suppress(FileExistsError):
            (queue / f"{number:06d}").mkdir()
            return LocalJobFiles(queue / f"{number:06d}")


def place_lock(queue: Path, number: int) -> Path:
    """Return the lock file of a place; the job that holds it may run."""
    return queue / f"place-{number}.lock"


def turn_lock(queue: Path) -> Path:
    """Return the lock file that the first waiting job holds while it tries the places."""
    return queue / "turn.lock"
