"""Finds the run that a command line selects: configuration, intent and release."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from Daddy.cluster.orchestrator.control_files import read_intent
from Daddy.cluster.orchestrator.controller_types import DesiredRun
from Daddy.cluster.release_build import Release
from Daddy.core.errors import FileError
from Daddy.core.load_config import load_config, run_paths
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config


@dataclass(frozen=True, slots=True)
class Request:
    """Holds a command line's configuration file, site profile and overriding options."""

    config: Path | None
    site: str | None
    overrides: Mapping[str, object]

    def load_settings(self, *, begins: bool = False) -> Config:
        """Return the configuration; ``begins``: refuse removed values. Raises ConfigError."""
        return load_config(self.config, self.overrides, os.environ, self.site, begins=begins)

    def find_run(self) -> tuple[Config, RunPaths]:
        """Return the effective configuration, and the paths of its run."""
        config = self.load_settings()
        return config, run_paths(config)


def load_intent(run: RunPaths) -> tuple[DesiredRun | None, str]:
    """Return the intent (None before a start) and "", or None and the reason it is unreadable."""
    try:
        return read_intent(run), ""
    except FileError as error:
        return None, error.message


def find_release(run: RunPaths, asked: DesiredRun | None, base: Config) -> tuple[Release, Config]:
    """Return the asked release, and its configuration (``base`` if the release's is gone)."""
    ident = asked.release if asked is not None else ""
    release = Release(ident, run.releases / ident)
    return release, release.settings(base)


def resolve_paths(config: Config, executor: str) -> Config:
    """Return the configuration for jobs on other hosts: absolute paths and a fixed executor."""
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
