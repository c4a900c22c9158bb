"""Which run a command means, and what every command first asks about it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from Daddy.cluster.orchestrator.intent import Intent, read_intent
from Daddy.cluster.release_build import Release
from Daddy.core.config import load, load_effective, run_paths
from Daddy.core.errors import DaddyError, FileError
from Daddy.core.paths import RunPaths
from Daddy.core.settings import Config


@dataclass(frozen=True, slots=True)
class Request:
    """Which run is meant: config file, site profile and flags."""

    config: Path | None
    site: str | None
    overrides: Mapping[str, object]

    def load(self) -> Config:
        """The effective configuration; ConfigError with all that is wrong."""
        return load(self.config, self.overrides, os.environ, self.site)


def known_intent(run: RunPaths) -> tuple[Intent | None, str]:
    """What was last asked for, and in words why that cannot be read ('' when it can)."""
    try:
        return read_intent(run), ""
    except FileError as error:
        return None, error.message


def frozen(run: RunPaths, intent: Intent, fallback: Config) -> tuple[Release, Config]:
    """The release that the intent names with its own configuration, where it still exists."""
    release = Release(intent.release, run.releases / intent.release)
    if intent.release and release.config.exists():
        return release, load_effective(release.config)
    return release, fallback


def absolute(config: Config, executor: str) -> Config:
    """The configuration as jobs elsewhere need it: full paths, and no choice left open."""
    run_dir = str(Path(config.run_dir).expanduser().resolve())
    shared = config.collaboration.shared_dir
    shared = str(Path(shared).expanduser().resolve()) if shared else ""
    join = config.collaboration.join
    join = str(Path(join).expanduser().resolve()) if join else ""
    sharing = config.collaboration.model_copy(update={"shared_dir": shared, "join": join})
    return config.model_copy(
        update={
            "run_dir": run_dir,
            "collaboration": sharing,
            "controller": config.controller.model_copy(update={"executor": executor}),
        }
    )


def started_here(request: Request) -> tuple[Config, RunPaths, Intent]:
    """Config, places and intent of a run that exists; FileError when ``start`` was never said."""
    config = request.load()
    run = run_paths(config)
    intent = read_intent(run)
    if intent is None:
        raise FileError(f"no run was ever started in {run.root}", "say start first")
    return frozen(run, intent, config)[1], run, intent


def as_error(found: list[DaddyError]) -> DaddyError:
    """Several findings as one error: all are told, the first one's exit code counts."""
    if len(found) == 1:
        return found[0]
    told = "".join(f"\n  {number}. {one.message}" for number, one in enumerate(found, 1))
    fixes = "".join(f"\n  {number}. {one.fix}" for number, one in enumerate(found, 1))
    error = DaddyError(f"{len(found)} things stand in the way:{told}", fixes)
    error.exit_code = found[0].exit_code
    return error
