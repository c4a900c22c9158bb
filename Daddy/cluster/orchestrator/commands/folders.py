"""Folders that jobs need, made and tried before any is submitted.

Slurm fails a job without a word when the folder of its log is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from Daddy.core.errors import FileError
from Daddy.core.files import create_exclusive
from Daddy.core.names import new_incarnation
from Daddy.core.paths import RunPaths


def make_run_folders(run: RunPaths) -> None:
    """Make the run's folders; FileError where they cannot be written."""
    folders = (run.logs, run.scripts, run.controller, run.events, run.slots, run.releases)
    way_out = "set run_dir in the config to a folder of yours that all nodes share"
    _make(folders, f"the run directory {run.root}", way_out)


def make_shared_folder(folder: Path) -> None:
    """Make the folder of the shared weights; FileError where it cannot be written."""
    way_out = "name a folder of yours that all nodes share"
    _make((folder,), f"collaboration.shared_dir {folder}", way_out)


def _make(folders: Iterable[Path], place: str, way_out: str) -> None:
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            _try(folder)
    except OSError as error:
        raise FileError(f"{place} cannot be written: {error.strerror}", way_out) from error


def _try(folder: Path) -> None:
    """Write a file and remove it: a folder that is there may still be read-only."""
    probe = folder / f".probe-{new_incarnation()}"
    create_exclusive(probe, b"")
    probe.unlink()
