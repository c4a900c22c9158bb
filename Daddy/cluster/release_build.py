"""Builds releases: immutable copies of code and configuration that jobs run from.

A release is named by the hash of its code, its configuration and its environment (interpreter,
versions of key packages, the site's ``setup`` lines) and written once, so edits of the checkout
never change a running fleet. It holds the code twice: as files, and as one bundle that jobs unpack
on their node.
"""

import contextlib
import importlib.util
import os
import platform
import py_compile
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Daddy.cluster.release_node_copy import pack_bundle
from Daddy.core.atomic_files import canonical_json, new_folder, sha256_hex, write_atomic, write_new
from Daddy.core.errors import DaddyError
from Daddy.core.load_config import CHECKOUT, config_to_json, load_release_config
from Daddy.core.run_paths import ReleasePaths, RunPaths
from Daddy.core.run_subprocess import run_command
from Daddy.core.settings import Config

VERSION = 2
_PACKAGES = ("torch", "pufferlib", "pyboy", "submitit", "numpy", "gymnasium", "safetensors")
_IDENT = 12


@dataclass(frozen=True, slots=True)
class Release:
    """Identifies a release on disk by its hash and its folder."""

    ident: str
    path: Path

    @property
    def config(self) -> Path:
        return ReleasePaths(self.path).config

    def settings(self, fallback: Config) -> Config:
        """Return the release's configuration, or ``fallback`` if its file is gone."""
        return load_release_config(self.config) if self.config.exists() else fallback


def freeze_release(run_paths: RunPaths, config: Config, checkout: Path = CHECKOUT) -> Release:
    """Return the release of the checkout's code and of ``config``; build it unless it exists."""
    sources, content = _sources(checkout / "Daddy"), config_to_json(config)
    surroundings = release_environment(config)
    ident = _ident(sources, content, surroundings)
    path = run_paths.releases / ident
    if not path.exists():
        _build(path, checkout, sources, content, surroundings)
    return Release(ident, path)


def release_environment(config: Config) -> dict[str, Any]:
    """Return the interpreter, package versions and setup lines that are part of the hash."""
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "packages": {name: _version(name) for name in _PACKAGES},
        "setup": list(config.slurm.setup),
    }


def _sources(package: Path) -> dict[str, bytes]:
    """Return every file of the package but bytecode, by its path below the checkout."""
    return {
        file.relative_to(package.parent).as_posix(): file.read_bytes()
        for file in sorted(package.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".pyc"
    }


def _ident(files: Mapping[str, bytes], content: bytes, surroundings: Mapping[str, Any]) -> str:
    listing = {name: sha256_hex(data) for name, data in files.items()}
    record = {"files": listing, "config": sha256_hex(content), "environment": dict(surroundings)}
    return sha256_hex(canonical_json(record))[:_IDENT]


def _build(
    path: Path,
    checkout: Path,
    sources: Mapping[str, bytes],
    content: bytes,
    surroundings: Mapping[str, Any],
) -> None:
    """Write a temporary folder and rename it, so that a release is never incomplete."""
    with new_folder(path) as temp:
        for name, data in sources.items():
            runs = os.access(checkout / name, os.X_OK)
            write_new(temp / name, data, 0o555 if runs else 0o444)
        bundle = pack_bundle({**sources, **_compiled(temp, sources), "config.json": content})
        within = ReleasePaths(temp)
        write_atomic(within.parcel, bundle, 0o444)
        write_atomic(within.config, content, 0o444)
        record = {
            "v": VERSION,
            "release": path.name,
            **_commit(checkout),
            "environment": dict(surroundings),
            "parcel_sha256": sha256_hex(bundle),
        }
        write_atomic(within.stamp, canonical_json(record), 0o444)


def _compiled(folder: Path, sources: Mapping[str, bytes]) -> dict[str, bytes]:
    """Compile every module, without timestamps, so that no job has to; return path → bytecode."""
    bytecode: dict[str, bytes] = {}
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    with tempfile.TemporaryDirectory(prefix="daddy-release-") as scratch:
        for name in (name for name in sources if name.endswith(".py")):
            path = py_compile.compile(
                str(folder / name), f"{scratch}/module.pyc", name, invalidation_mode=mode
            )
            if path is not None:
                bytecode[importlib.util.cache_from_source(name)] = Path(path).read_bytes()
    return bytecode


def _commit(checkout: Path) -> dict[str, object]:
    """Return ``commit``, the checkout's, and ``changed``: True if the code differs from it."""
    git = ["git", "-C", os.fspath(checkout)]
    with contextlib.suppress(DaddyError):
        head = run_command([*git, "rev-parse", "HEAD"], 10.0)
        changes = run_command([*git, "status", "--porcelain", "--", "Daddy"], 10.0)
        if head.returncode == 0:
            return {"commit": head.stdout.strip(), "changed": bool(changes.stdout.strip())}
    return {"commit": "unknown", "changed": None}


def _version(package: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"
