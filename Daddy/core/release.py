"""An immutable copy of code and configuration that attempts run from.

Editing the checkout never touches a running fleet: a release is named by the hash of its content,
written once, and jobs put it first on ``PYTHONPATH``.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
import uuid
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from Daddy.core.config import CHECKOUT, effective_json
from Daddy.core.errors import DaddyError
from Daddy.core.files import to_json, write_atomic
from Daddy.core.paths import RunPaths
from Daddy.core.process import run
from Daddy.core.settings import Config

_PACKAGES = ("torch", "pufferlib", "pyboy", "submitit", "numpy", "gymnasium", "safetensors")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc")


@dataclass(frozen=True, slots=True)
class Release:
    """One frozen pair of code and configuration."""

    ident: str
    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.json"


def freeze(run_paths: RunPaths, config: Config, checkout: Path = CHECKOUT) -> Release:
    """The release of what ``checkout`` and ``config`` hold now; made unless it exists."""
    content = effective_json(config)
    ident = _hash(checkout / "Daddy", content)
    path = run_paths.releases / ident
    if not path.exists():
        _build(path, checkout, content)
    return Release(ident, path)


def _hash(package: Path, content: bytes) -> str:
    digest = hashlib.sha256(content)
    for file in sorted(package.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(str(file.relative_to(package)).encode() + b"\0")
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:12]


def _build(path: Path, checkout: Path, content: bytes) -> None:
    """Copy beside the final name, then rename: a release exists whole or not at all."""
    temp = path.with_name(f".tmp-{uuid.uuid4().hex}")
    shutil.copytree(checkout / "Daddy", temp / "Daddy", ignore=_LEFT_OUT)
    write_atomic(temp / "config.json", content)
    write_atomic(temp / "stamp.json", to_json(_stamp(checkout)))
    try:
        temp.rename(path)
    except OSError:  # another host was faster: its bytes are the same
        shutil.rmtree(temp, ignore_errors=True)
        if not path.is_dir():
            raise


def _stamp(checkout: Path) -> dict[str, object]:
    return {
        "v": 1,
        "commit": _commit(checkout),
        "python": platform.python_version(),
        "executable": sys.executable,
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def _commit(checkout: Path) -> str:
    try:
        done = run(["git", "-C", os.fspath(checkout), "rev-parse", "HEAD"], 10.0)
    except DaddyError:
        return "unknown"
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
