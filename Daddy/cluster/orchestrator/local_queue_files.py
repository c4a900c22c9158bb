"""The local queue's files: one folder per job, each file written once by one process.

The scheduler writes ``job.json`` (the job), ``cancel.json`` (it must not run: a signal alone is
lost on a job that is only being born) and ``amend.json`` (held or not while it waits).
``local_job_runner`` writes ``process.json`` (itself), ``start.json`` (the job's program and its
times) and ``end.json``. A folder without ``job.json`` is a submission that never finished.
``place-<n>.lock`` are the places: a job runs while it holds one, and the kernel frees it with the
last process of the job, however that ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import read_json, write_json
from Daddy.core.errors import FileError
from Daddy.core.machine_info import ProcessId, is_alive

ENDED = "ended"
"""Folder that ended jobs are moved to."""
BOOT_S = 60.0
"""Seconds after which a job without a process of its own counts as lost."""


@dataclass(frozen=True, slots=True)
class LocalJobFiles:
    """The folder of one job."""

    folder: Path

    @property
    def job_id(self) -> int:
        return int(self.folder.name)

    def read(self, name: str) -> dict[str, Any] | None:
        """A file such as ``job`` or ``end``; None when that cannot be had."""
        try:
            return self.read_or_raise(name)
        except FileError:
            return None

    def read_or_raise(self, name: str) -> dict[str, Any] | None:
        """None when that was not written; FileError when it is there and cannot be read now."""
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
        """The process that ``process`` or ``start`` names."""
        record = self.read(name)
        return None if record is None else ProcessId(record["pid"], record["created"])


def live_jobs(queue: Path) -> Iterator[LocalJobFiles]:
    """Jobs that were not moved away, in the order submitted."""
    if queue.is_dir():
        folders = (path for path in queue.iterdir() if path.name.isdigit())
        for folder in sorted(folders, key=lambda path: int(path.name)):
            yield LocalJobFiles(folder)


def is_job_ahead(queue: Path, job_id: int, now: float) -> bool:
    """Whether a job with a smaller number still waits for its place."""
    return any(files.job_id < job_id and _waits(files, now) for files in live_jobs(queue))


def is_held(files: LocalJobFiles) -> bool:
    """Whether it is to wait although a place is free."""
    return bool((files.read("amend") or {}).get("hold"))


def _waits(files: LocalJobFiles, now: float) -> bool:
    begun = any(files.read(name) is not None for name in ("start", "end", "cancel"))
    if begun or is_held(files):
        return False
    spec, keeper = files.read("job"), files.process("process")
    if keeper is None:
        return spec is not None and now - float(spec["submitted_ts"]) < BOOT_S
    return is_alive(keeper)


def new_job(queue: Path) -> LocalJobFiles:
    """A folder under the next free number; two submitters never get the same."""
    (queue / ENDED).mkdir(parents=True, exist_ok=True)
    names = [path.name for folder in (queue, queue / ENDED) for path in folder.iterdir()]
    number = max((int(name) for name in names if name.isdigit()), default=0)
    while True:
        number += 1
        with contextlib.suppress(FileExistsError):
            (queue / f"{number:06d}").mkdir()
            return LocalJobFiles(queue / f"{number:06d}")


def place_lock(queue: Path, number: int) -> Path:
    """The lock of one running place."""
    return queue / f"place-{number}.lock"


def turn_lock(queue: Path) -> Path:
    """Held by the first waiting job, which looks for a place."""
    return queue / "turn.lock"
