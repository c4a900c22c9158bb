"""Finds files that are missing from the Python environment, as scratch storage deletes old ones.

Needs the standard library alone, in environments that lack the rest.
"""

import csv
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from Daddy.core.errors import ExitCode

STAMP = ".daddy-installed"
"""File of an environment made by ``scripts/install``: a line for each package, and more."""
REMEDY = "type ./scripts/install, then `run_controller start` for a run that is paused"
_PURGED = "the environment was purged"
_SHOWN = 3
_SYMPTOMS = (ImportError, AttributeError, OSError)
"""Errors of packages that lack files; OSError: a shared library, or a file of data."""


def find_missing(environment: Path) -> dict[str, list[str]]:
    """Return package folder (``x-1.0.dist-info``) → its missing files, by pip's own records."""
    return {
        package: missing
        for site in sorted(environment.glob("lib/python3*/site-packages"))
        for package, missing in _missing_of(site, _stamped(environment))
    }


def _stamped(environment: Path) -> set[str]:
    """Return the packages in the stamp; empty without one, or with one of the release before."""
    try:
        lines = (environment / STAMP).read_text(errors="replace").splitlines()
    except OSError:
        return set()
    return {line for line in lines if line.endswith(".dist-info") and os.sep not in line}


def _missing_of(site: Path, packages: set[str]) -> Iterator[tuple[str, list[str]]]:
    present = set(_files(site))
    installed = {path.name for path in site.glob("*.dist-info")}
    present_names = {package.partition("-")[0] for package in installed}
    purged = {package for package in packages if package.partition("-")[0] not in present_names}
    for package in sorted(purged | installed):  # another version of a package is no purge
        try:
            with (site / package / "RECORD").open(newline="", encoding="utf-8") as stream:
                names = [row[0] for row in csv.reader(stream) if row]
        except (OSError, ValueError, csv.Error):
            yield package, [f"{package}/RECORD"]
            continue
        lost = (name for name in names if name not in present and not name.endswith(".pyc"))
        if missing := [name for name in lost if not (site / name).exists()]:
            yield package, missing


def _files(site: Path) -> Iterator[str]:
    """Yield the files below ``site`` as records name them; faster than 30,000 calls of stat."""
    start = len(os.fspath(site)) + 1
    for folder, folders, files in os.walk(site):
        folders[:] = [name for name in folders if name != "__pycache__"]
        within = f"{folder[start:]}/" if len(folder) > start else ""
        yield from (within + name for name in files)


def describe_purge(error: BaseException, environment: Path) -> str:
    """Return a sentence if missing files explain ``error``, else "".

    A module that is not found is proof enough, as the records may be missing too.
    """
    if not isinstance(error, _SYMPTOMS):
        return ""
    lost = [name for names in find_missing(environment).values() for name in names]
    if lost:
        shown = ", ".join(lost[:_SHOWN])
        return f"{_PURGED}: {len(lost):,} files are missing, such as {shown}"
    module = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
    ours = not module or module.partition(".")[0] == "Daddy"
    return "" if ours else f"{_PURGED}: there is no module {module}"


def report_exception(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Stand for ``sys.excepthook``: show the traceback, or tell of a purge and exit with 14."""
    why = describe_purge(error, Path(sys.prefix))
    if not (why and isinstance(error, ImportError)):
        sys.__excepthook__(kind, error, trace)
    if not why:
        return
    print(f"error: {why}\n  what to do: {REMEDY}", file=sys.stderr, flush=True)
    os._exit(ExitCode.PACKAGES_MISSING)
