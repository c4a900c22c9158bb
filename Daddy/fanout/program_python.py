"""Finds the Python that runs the program in a sandbox, and the folders that it needs there."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.errors import SandboxError
from Daddy.sandbox.backend_facts import REMOTE

_IMAGE = Path("/usr")
"""The image ``host`` has this folder."""
_PACKAGES = ("site-packages", "dist-packages")
_OURS = Path(__file__).resolve().parents[1]
"""This package: gymnasium 0.29 imports it when it is itself imported (`pokemon.registration`)."""


@dataclass(frozen=True, slots=True)
class ProgramPython:
    """Names an interpreter, its folders of the host, and further folders of packages."""

    path: str
    folders: tuple[Path, ...] = ()
    packages: tuple[Path, ...] = ()


def choose_python(backend: str) -> ProgramPython:
    """Return a remote image's Python, this one, or /usr's if other accounts cannot enter this one.

    As root a sandbox runs as another account. Raises SandboxError if none can be used.
    """
    if backend in REMOTE:
        return ProgramPython("python3")
    own = {Path(sys.prefix), Path(sys.base_prefix)} - {_IMAGE}
    packages = tuple(Path(text) for text in sys.path if Path(text).name in _PACKAGES)
    added = tuple(folder for folder in packages if not _is_below(folder, {*own, _IMAGE}))
    closed = [folder for folder in own if not _can_enter(folder)]
    ours = [_OURS] if _OURS.parent not in packages and _can_enter(_OURS) else []
    if not closed:
        folders = {folder for folder in {*own, *added, *ours} if not _is_below(folder, {_IMAGE})}
        return ProgramPython(
            sys.executable, tuple(sorted(folders)), (*added, *(f.parent for f in ours))
        )
    image = _IMAGE / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    if not image.exists():
        raise SandboxError(
            f"other accounts cannot enter {closed[0]}, where this Python is",
            "run as an ordinary user, or with a Python outside of root's home",
        )
    usable = tuple(f for f in packages if _can_enter(f) and not _is_below(f, {_IMAGE}))
    return ProgramPython(str(image), (*usable, *ours), (*usable, *(f.parent for f in ours)))


def _can_enter(folder: Path) -> bool:
    """Return True if a sandbox can enter a folder: as root it runs as another account."""
    path = (folder, *folder.parents)
    return os.geteuid() != 0 or all(part.stat().st_mode & 0o001 for part in path)


def _is_below(path: Path, folders: set[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)
