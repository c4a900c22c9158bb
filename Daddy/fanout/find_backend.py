"""Reads the facts of this machine and returns the backend that a run asks for."""

import importlib
import os
import platform
import shutil

from Daddy.core.errors import SandboxError
from Daddy.sandbox.choose_backend import BackendChoice, BackendFacts, choose_backend
from Daddy.sandbox.interfaces import Backend

_CLASSES = {
    "bubblewrap": ("bubblewrap", "BubblewrapBackend"),
    "apptainer": ("apptainer", "ApptainerBackend"),
    "docker": ("docker_backend", "DockerBackend"),
    "daytona": ("daytona_backend", "DaytonaBackend"),
    "process": ("process_backend", "ProcessBackend"),
}
"""Name of a backend → its module in `Daddy.sandbox` and its class."""


def read_facts() -> BackendFacts:
    """Return what this machine has."""
    return BackendFacts(
        system=platform.system(),
        bwrap=shutil.which("bwrap") or "",
        apptainer=bool(shutil.which("apptainer")),
        docker=bool(shutil.which("docker")),
        keys=frozenset({"DAYTONA_API_KEY"} & os.environ.keys()),
    )


def choose(wish: str, *, allow_unsafe: bool) -> BackendChoice:
    """Return the choice for a wish. Raises SandboxError where nothing confines, ConfigError."""
    choice = choose_backend(wish, read_facts(), generated=False, allow_unsafe=allow_unsafe)
    if choice.level == "none" and not allow_unsafe:
        raise SandboxError(
            f"the backend {choice.name} does not confine programs",
            "use --backend bubblewrap, or add --allow-unsafe to this run",
        )
    return choice


def find_backend(wish: str, *, allow_unsafe: bool) -> Backend:
    """Return the backend for a wish. Raises SandboxError, ConfigError, ExtraMissingError."""
    module, name = _CLASSES[choose(wish, allow_unsafe=allow_unsafe).name]
    backend: Backend = getattr(importlib.import_module(f"Daddy.sandbox.{module}"), name)()
    return backend
