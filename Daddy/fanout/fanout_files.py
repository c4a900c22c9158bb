"""The files of a fan-out: settings, program, results, events and errors in the run directory.

A result is a file that is created once and holds only what the settings and the program decide:
no time, host or process. A missing result is the only sign that a sandbox has to run.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import (
    canonical_json,
    create_exclusive,
    read_bounded,
    read_json,
    read_json_or_empty,
    sha256_hex,
    write_atomic,
    write_json,
)
from Daddy.core.errors import ConfigError, FileError
from Daddy.core.file_lock import hold_lock
from Daddy.core.shared_weights_paths import PathBelow
from Daddy.fanout.fanout_settings import FanoutSettings, sandbox_id
from Daddy.fanout.fanout_state import SandboxRow

PROGRAM_BYTES = 4 << 20
"""Largest program that is copied into each sandbox."""


@dataclass(frozen=True, slots=True)
class FanoutPaths:
    """The run directory of a fan-out."""

    root: Path

    settings = PathBelow("fanout.json")
    program = PathBelow("program.py")
    """The program as it was when the run began."""
    results = PathBelow("results")
    events = PathBelow("events")
    batches = PathBelow("batches")
    """Indices of the batches of each attempt, for jobs to read."""
    logs = PathBelow("logs")
    errors = PathBelow("errors.log")

    def result(self, index: int) -> Path:
        return self.results / f"{index:05d}.json"


def begin_run(paths: FanoutPaths, settings: FanoutSettings, program: bytes) -> None:
    """Create the files of a new run. Raises ConfigError if the folder holds a run."""
    if not create_exclusive(paths.settings, canonical_json(settings.as_json())):
        raise ConfigError(
            f"{paths.root} holds a run", "add --resume to go on with it, or name another --run-dir"
        )
    try:
        write_atomic(paths.program, program)
    except OSError:
        paths.settings.unlink(missing_ok=True)  # else the folder holds a run without a program
        raise


def hold_run(paths: FanoutPaths, *, require_locks: bool = False) -> AbstractContextManager[None]:
    """Keep other processes from running a run. Raises ConfigError if one does.

    A file system without locks is no error unless `require_locks`; then it is a FileError. A result
    is created once anyway.
    """
    fix = "wait for its end, or stop it with Ctrl-C"
    held = ConfigError(f"another process runs {paths.root}", fix)
    return hold_lock(paths.settings, held, require_locks=require_locks)


def read_settings(paths: FanoutPaths) -> dict[str, Any]:
    """Return the settings of an earlier run. Raises ConfigError if there is none, FileError."""
    try:
        return read_json(paths.settings)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ConfigError(
            f"there is no run to resume at {paths.root}", "name its folder: --run-dir"
        ) from error


def read_program(path: Path) -> tuple[bytes, str]:
    """Return a program and its SHA-256. Raises ConfigError if it is no Python program."""
    try:
        program = read_bounded(path.resolve(), PROGRAM_BYTES)
        compile(program, str(path), "exec")
    except FileNotFoundError as error:
        raise ConfigError(f"there is no program at {path}", "name a Python file: --task") from error
    except (SyntaxError, ValueError) as error:
        raise ConfigError(f"{path} is no Python program: {error}", "correct it") from error
    return program, sha256_hex(program)


def read_results(paths: FanoutPaths, settings: FanoutSettings) -> dict[int, dict[str, Any]]:
    """Return the results by index; remove files that a power cut damaged."""
    results = {}
    for index in settings.indices:
        if not (path := paths.result(index)).exists():
            continue
        if record := read_json_or_empty(path):
            results[index] = record
        else:
            path.unlink(missing_ok=True)
    return results


def save_result(paths: FanoutPaths, index: int, result: dict[str, Any]) -> None:
    """Create a result. Raises FileError if there is another one with different bytes.

    It does not wait for the disk: what a power cut damages runs again.
    """
    path, data = paths.result(index), canonical_json(result)
    if (
        not create_exclusive(path, data, durable=False)
        and read_bounded(path, PROGRAM_BYTES) != data
    ):
        raise FileError(
            f"{path} differs from the result of a second run of {sandbox_id(index)}",
            "its program does not depend on the seed alone: use TASK_SEED for all its draws",
        )


def write_errors(paths: FanoutPaths, folder: Path, failed: Sequence[SandboxRow]) -> None:
    """Write errors.log into the run directory and into `folder`; without errors remove both."""
    text = "".join(f"[sandbox {r.index}] id={sandbox_id(r.index)}\n{r.message}\n\n" for r in failed)
    for path in (paths.errors, folder / "errors.log"):
        if text:
            write_atomic(path, text.encode())
        else:
            path.unlink(missing_ok=True)


def save_batches(paths: FanoutPaths, token: str, batches: Sequence[Sequence[int]]) -> Path:
    """Write the indices of an attempt's batches for jobs on other machines."""
    path = paths.batches / f"{token}.json"
    write_json(path, {"batches": [list(batch) for batch in batches]})
    return path


def read_batch(paths: FanoutPaths, token: str, number: int) -> tuple[int, ...]:
    """Return the indices of one batch. Raises FileError, FileNotFoundError."""
    batches = read_json(paths.batches / f"{token}.json", limit=16 << 20)["batches"]
    return tuple(int(index) for index in batches[number])
