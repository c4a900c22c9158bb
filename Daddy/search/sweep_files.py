"""The files of a sweep below a runs folder: ``sweeps/NAME/``.

A run number is a file that is created once: of several processes, on any host, exactly one gets it.
So a process that is killed at any moment, or a second one on the same folder, repeats no number. A
number whose reader was killed before it read the answer is never given out again.
"""

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import canonical_json, create_exclusive, read_json
from Daddy.core.errors import ConfigError, ControllerAliveError, FileError
from Daddy.core.file_lock import hold_lock
from Daddy.core.name_validation import check_sweep
from Daddy.core.shared_weights_paths import PathBelow
from Daddy.search.study_plan import StudyPlan, plan_from_json

MAX_SWEEPS = 1_000
"""Most sweeps of a runs folder: every program of this machine can ask for one."""
MAX_RUNS = 100_000
"""Most runs of a sweep, for the same reason."""
_RESTORE = "restore it, or give the sweep another name"
_NUMBER = re.compile(r"(\d{6})\.json")


@dataclass(frozen=True, slots=True)
class SweepPaths:
    """The folder of one sweep."""

    root: Path

    record = PathBelow("sweep.json")
    """The sweep's identifiers, written once."""
    runs = PathBelow("runs")
    """One file for each run number that was given out."""
    journal = PathBelow("study.jsonl")
    """Optuna's journal: trials, their settings and results."""
    request = PathBelow("request.json")
    """The command line's meaning, fixed when the sweep starts."""
    config = PathBelow("config.json")
    """The configuration that all trials have in common, fixed when the sweep starts."""
    driver_lock = PathBelow("driver.lock")
    """Locked by the one process that drives the sweep."""
    driver = PathBelow("driver.json")
    """The attempts that the driver wants to run, for the other ranks."""

    def run(self, number: int) -> Path:
        return self.runs / f"{number:06d}.json"

    def trial(self, run_id: str) -> Path:
        """Return the run directory of the trial with this run id."""
        return self.root / "trials" / f"{int(run_id.rpartition('.')[2]):06d}"

    def rank_file(self, rank: int) -> Path:
        """Return the file in which a rank other than 0 lists its attempts."""
        return self.root / "ranks" / f"{rank}.json"


@dataclass(frozen=True, slots=True)
class SweepRecord:
    """The identifiers of a sweep; those of W&B are empty for a sweep without W&B."""

    sweep_id: str
    project: str = ""
    entity: str = ""
    wandb_sweep_id: str = ""


def sweep_paths(runs_folder: Path, name: str) -> SweepPaths:
    """Return the folder of the sweep ``name``. UsageError if nothing can have that name."""
    return SweepPaths(runs_folder / "sweeps" / check_sweep(name))


def read_sweep(paths: SweepPaths) -> SweepRecord | None:
    """Return the record of a sweep, None if there is no such sweep. FileError if it is damaged."""
    try:
        return SweepRecord(**read_json(paths.record))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except TypeError as error:
        raise FileError(
            f"{paths.record} is no record of a sweep", "restore or remove it"
        ) from error


def create_sweep(paths: SweepPaths, record: SweepRecord) -> tuple[SweepRecord, bool]:
    """Return the sweep's record, and True if this call created it with ``record``.

    ConfigError if the runs folder has no room for another sweep.
    """
    if found := read_sweep(paths):
        return found, False
    if sum(1 for _ in _names(paths.root.parent)) >= MAX_SWEEPS:
        raise ConfigError(
            f"there are {MAX_SWEEPS:,} sweeps in {paths.root.parent}", "use another --run-dir"
        )
    if create_exclusive(paths.record, canonical_json(asdict(record))):
        return record, True
    if found := read_sweep(paths):
        return found, False
    raise FileError(f"{paths.record} was removed while it was read", "try again")


def take_run_id(paths: SweepPaths) -> str:
    """Return a run id of the sweep that no other call gets: ``<sweep>.r.<n>``, n from 1.

    ConfigError if the sweep has ``MAX_RUNS`` runs.
    """
    number = _newest_number(paths)
    while (number := number + 1) <= MAX_RUNS:
        run_id = f"{paths.root.name}.r.{number}"
        if create_exclusive(paths.run(number), canonical_json({"run_id": run_id})):
            return run_id
    raise ConfigError(f"the sweep {paths.root.name} has {MAX_RUNS:,} runs", "start another sweep")


def read_request(paths: SweepPaths) -> tuple[dict[str, Any], StudyPlan | None]:
    """Return the request and the plan of a sweep; {} and None for a new one.

    FileError if a file is damaged or lost: with defaults in its place, the trials to come could not
    be compared with those before.
    """
    started = paths.journal.exists() or any(_names(paths.runs))
    if not started and not paths.request.exists():
        return {}, None
    expected = (paths.config, paths.request, *([paths.journal] if any(_names(paths.runs)) else []))
    if lost := [path for path in expected if not path.exists()]:
        raise FileError(f"{lost[0]} is lost", _RESTORE)
    record = read_json(paths.request)
    try:
        plan = plan_from_json(record.pop("study"))
        steps = record["steps"] + 0
        record = {"workload": str(record["workload"]), "steps": steps, "fixed": {**record["fixed"]}}
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError, ConfigError) as error:
        raise FileError(f"{paths.request} is damaged", _RESTORE) from error
    return record, plan


def hold_sweep(paths: SweepPaths, rank: int = 0) -> AbstractContextManager[None]:
    """Keep other processes from being this rank of a sweep. ControllerAliveError if one is."""
    paths.root.mkdir(parents=True, exist_ok=True)
    held = ControllerAliveError(
        f"another process is rank {rank} of the sweep {paths.root.name}",
        "wait for its end or stop it with Ctrl-C; --jobs runs several trials at once",
    )
    lock = paths.root / f"rank-{rank}.lock" if rank else paths.driver_lock
    return hold_lock(lock, held, require_locks=True)


def _newest_number(paths: SweepPaths) -> int:
    """Return the largest number that was given out, 0 if none was."""
    found = (_NUMBER.fullmatch(name) for name in _names(paths.runs))
    return max((int(match[1]) for match in found if match), default=0)


def _names(folder: Path) -> Iterator[str]:
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        yield from (entry.name for entry in entries)
