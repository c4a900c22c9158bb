"""Implements ``runs``: lists the person's runs with their state.

Runs are found beside the configured run, and where the mirrors in the home directory say that they
were copied from. Nothing is recorded for this, and nothing is changed.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from Daddy.cluster.orchestrator.commands.run_selection import Request, load_intent
from Daddy.cluster.orchestrator.commands.status import StatusReader
from Daddy.cluster.orchestrator.controller_types import Mode, Snapshot
from Daddy.core.atomic_files import read_json_or_empty
from Daddy.core.clock import SystemClock
from Daddy.core.errors import DaddyError, ExitCode
from Daddy.core.humanize import printable_line
from Daddy.core.run_paths import MirrorPaths, RunPaths, mirrors_folder
from Daddy.core.settings import Config


def run_runs(request: Request) -> int:
    """Print one line for each run: name, state and folder."""
    config, run = request.find_run()
    folder = mirrors_folder(config.mirror.folder, os.environ, Path.home())
    rows = [(root, _state(RunPaths(root), config)) for root in find_runs(run, folder)]
    width = max((len(root.name) for root, _ in rows), default=0)
    for root, state in rows:
        print(f"{printable_line(root.name):{width}}  {state}  ({printable_line(str(root))})")
    if not rows:
        print(f"no run was ever started in {run.root.parent}")
    return ExitCode.DONE


def find_runs(run: RunPaths, mirrors: Path) -> list[Path]:
    """Return the folders of all runs beside ``run`` and of those with a mirror, sorted."""
    return sorted({root.resolve() for root in _candidates(run, mirrors) if _is_run(root)})


def _candidates(run: RunPaths, mirrors: Path) -> Iterator[Path]:
    yield run.root
    if run.root.parent.is_dir():
        yield from run.root.parent.iterdir()
    if mirrors.is_dir():
        for mirror in mirrors.iterdir():
            source = read_json_or_empty(MirrorPaths(mirror).card).get("source")
            if isinstance(source, str):
                yield Path(source)


def _is_run(root: Path) -> bool:
    try:
        return RunPaths(root).intent.is_file()
    except (OSError, ValueError):
        return False


def _state(run: RunPaths, config: Config) -> str:
    """Return the sentence of ``status``; the queue is listed for runs that have not ended."""
    clock, (intent, _) = SystemClock(), load_intent(run)
    config = config.model_copy(update={"run_dir": str(run.root)})
    reader = StatusReader(config, run, clock)
    if intent is not None and intent.mode in (Mode.STOPPED, Mode.DONE):
        reader = replace(reader, listing=(clock.monotonic(), Snapshot(clock.now(), ())))
    try:
        return str(next(reader.read_records())["said"])
    except (DaddyError, OSError) as error:
        return printable_line(f"cannot be read: {error}")
