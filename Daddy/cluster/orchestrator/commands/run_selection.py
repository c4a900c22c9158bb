"""The run that a command means: its configuration, its intent and the release it runs from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from Daddy.cluster.orchestrator.control_files import read_intent
from Daddy.cluster.orchestrator.controller_records import Intent
from Daddy.cluster.release_build import Release
from Daddy.core.errors import FileError
from Daddy.core.load_config import load_config, run_paths
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config


@dataclass(frozen=True, slots=True)
class Request:
    """Config file, site profile and flags of a command line."""

    config: Path | None
    site: str | None
    overrides: Mapping[str, object]

    def load_settings(self, *, begins: bool = False) -> Config:
        """The effective configuration; ConfigError with all that is wrong.

        ``begins``: a run is to begin by it.
        """
        return load_config(self.config, self.overrides, os.environ, self.site, begins=begins)

    def find_run(self) -> tuple[Config, RunPaths]:
        """The effective configuration, and the run's folder."""
        config = self.load_settings()
        return config, run_paths(config)


def try_read_intent(run: RunPaths) -> tuple[Intent | None, str]:
    """The last intent, and in words why it cannot be read ('' when it can)."""
    try:
        return read_intent(run), ""
    except FileError as error:
        return None, error.message


def intended_release(
    run: RunPaths, intent: Intent | None, fallback: Config
) -> tuple[Release, Config]:
    """The release that the intent names with its own configuration, where it still exists."""
    ident = intent.release if intent is not None else ""
    release = Release(ident, run.releases / ident)
    return release, release.settings(fallback)


def resolve_paths(config: Config, executor: str) -> Config:
    """The configuration as jobs elsewhere need it: full paths, and no choice left open."""
    sharing = config.collaboration
    places = {"shared_dir": sharing.shared_dir, "join": sharing.join}
    full = {name: _full(path) if path else "" for name, path in places.items()}
    return config.model_copy(
        update={
            "run_dir": _full(config.run_dir),
            "collaboration": sharing.model_copy(update=full),
            "controller": config.controller.model_copy(update={"executor": executor}),
        }
    )


def _full(path: str) -> str:
    return str(Path(path).expanduser().resolve())
