"""Adapter for this machine: reads the facts that choose a backend, and loads the chosen one."""

import importlib
import os
import platform
import shutil
from pathlib import Path

from Daddy.core.errors import DaddyError
from Daddy.core.run_subprocess import run_command
from Daddy.sandbox.choose_backend import BackendFacts
from Daddy.sandbox.interfaces import Backend

_CLASSES = {
    "bubblewrap": ("bubblewrap", "BubblewrapBackend"),
    "apptainer": ("apptainer", "ApptainerBackend"),
    "docker": ("docker_backend", "DockerBackend"),
    "daytona": ("daytona_backend", "DaytonaBackend"),
    "process": ("process_backend", "ProcessBackend"),
}
"""Name of a backend → its module in `Daddy.sandbox` and its class."""
_INSTALLERS = ("apt", "dnf", "pacman", "zypper")
_TRY_S = 20.0


def read_facts() -> BackendFacts:
    """Return what this machine has. Starts bubblewrap and Docker's client, if they are here."""
    bwrap = shutil.which("bwrap") or ""
    return BackendFacts(
        system=platform.system(),
        bwrap=bwrap,
        bwrap_error=_error_of(bwrap, "--unshare-all", "--ro-bind", "/", "/", "true"),
        apptainer=bool(shutil.which("apptainer")),
        docker=bool(shutil.which("docker")) and not _error_of("docker", "info"),
        keys=frozenset({"DAYTONA_API_KEY"} & os.environ.keys()),
        installer=next((name for name in _INSTALLERS if shutil.which(name)), ""),
        userns_clone=_flag("kernel/unprivileged_userns_clone"),
        max_namespaces=_number("user/max_user_namespaces"),
        apparmor_restricts=bool(_flag("kernel/apparmor_restrict_unprivileged_userns")),
    )


def load_backend(name: str) -> Backend:
    """Return the backend of that name. Raises ExtraMissingError for a package that is missing."""
    module, kind = _CLASSES[name]
    backend: Backend = getattr(importlib.import_module(f"Daddy.sandbox.{module}"), kind)()
    return backend


def _error_of(*argv: str) -> str:
    """Return the first line that a program printed when it failed; empty: it did not fail."""
    if not argv[0]:
        return ""
    try:
        done = run_command(argv, _TRY_S)
    except DaddyError as error:
        return error.message
    said = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[0]
    return said if done.returncode else ""


def _number(name: str) -> int | None:
    try:
        return int(Path("/proc/sys", name).read_text())
    except (OSError, ValueError):
        return None


def _flag(name: str) -> bool | None:
    number = _number(name)
    return None if number is None else bool(number)
