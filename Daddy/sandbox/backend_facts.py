"""Adapter for this machine's means of confinement: reads the facts that a choice needs.

Bubblewrap is started and Docker's engine is asked, since an installed program may do neither.
"""

import os
import platform
import shutil
from importlib import import_module
from pathlib import Path

from Daddy.core.errors import DaddyError
from Daddy.core.humanize import printable_line
from Daddy.core.run_subprocess import run_command
from Daddy.sandbox.choose_backend import (
    INSTALLERS,
    VENDORS,
    BackendChoice,
    BackendFacts,
    choose_backend,
    require_isolation,
)
from Daddy.sandbox.sandbox_interfaces import Backend

_ANSWER_S = 20.0
_TRIAL = "--unshare-all --unshare-user --die-with-parent --ro-bind / / --proc /proc --dev /dev true"
_BACKENDS = {
    "bubblewrap": ("bubblewrap", "BubblewrapBackend"),
    "apptainer": ("apptainer", "ApptainerBackend"),
    "docker": ("docker_backend", "DockerBackend"),
    "daytona": ("daytona_backend", "DaytonaBackend"),
    "process": ("process_backend", "ProcessBackend"),
}
"""Name → module and class; imported when used, since a library may be absent."""
_LEVELS = {"vendor": "the vendor's promise", "none": "NOT CONFINED, as --allow-unsafe permits"}
REMOTE = ("docker", "daytona")
"""Backends of an engine or a vendor: their sandboxes outlive a killed program, and have a label."""


def open_chosen_backend(
    requested: str, *, generated: bool, allow_unsafe: bool = False, run: str = ""
) -> tuple[Backend, str]:
    """Return the backend that a person requests, and the lines that tell which it is.

    `generated` code comes from a model. Raises SandboxError where it is confined too little,
    ConfigError for an absent engine or key, UsageError, ExtraMissingError.
    """
    choice = choose_backend(requested, read_backend_facts(), allow_unsafe=allow_unsafe)
    return open_choice(choice, generated=generated, allow_unsafe=allow_unsafe, run=run)


def open_choice(
    choice: BackendChoice, *, generated: bool, allow_unsafe: bool = False, run: str = ""
) -> tuple[Backend, str]:
    """Return the backend of a choice, and the lines that tell which it is.

    Raises SandboxError where it confines too little, ExtraMissingError.
    """
    backend = open_backend(choice.name, run)
    level = backend.isolation()
    require_isolation(choice.name, level, generated, allow_unsafe)
    missing = f", missing: {', '.join(level.missing)}" if level.missing else ""
    shown = f"backend {choice.name}: {_LEVELS.get(level.level, level.level)}{missing}"
    return backend, f"{shown} ({choice.reason})\n{choice.hint}".rstrip()


def open_backend(name: str, run: str = "") -> Backend:
    """Return the backend of a choice, whose sandboxes have the label `run` where they can.

    Raises ExtraMissingError if its package is not installed.
    """
    module, backend = _BACKENDS[name]
    made = getattr(import_module(f"Daddy.sandbox.{module}"), backend)
    opened: Backend = made(run) if name in REMOTE else made()
    return opened


def read_backend_facts() -> BackendFacts:
    """Return what this machine has."""
    bwrap = shutil.which("bwrap") or ""
    docker = shutil.which("docker")
    return BackendFacts(
        system=platform.system(),
        bwrap=bwrap,
        bwrap_error=_error_of([bwrap, *_TRIAL.split()]) if bwrap else "",
        apptainer=any(map(shutil.which, ("apptainer", "singularity"))),
        docker=bool(docker) and not _error_of([str(docker), "version"]),
        keys=frozenset(key for key in VENDORS.values() if os.environ.get(key)),
        installer=next(filter(shutil.which, INSTALLERS), ""),
        userns_clone=_flag(_kernel_setting("kernel/unprivileged_userns_clone")),
        max_namespaces=_kernel_setting("user/max_user_namespaces"),
        apparmor_restricts=_kernel_setting("kernel/apparmor_restrict_unprivileged_userns") == 1,
    )


def _error_of(argv: list[str]) -> str:
    """Run a program that should succeed; return the first line of its error, else nothing."""
    try:
        done = run_command(argv, _ANSWER_S)
    except DaddyError as error:
        return error.message
    if done.returncode == 0:
        return ""
    return printable_line((done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[0])


def _kernel_setting(name: str) -> int | None:
    try:
        return int(Path("/proc/sys", name).read_text())
    except (OSError, ValueError):
        return None


def _flag(setting: int | None) -> bool | None:
    return None if setting is None else setting != 0
