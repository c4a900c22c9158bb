"""Provides shims for Slurm's programs, which ``start`` and ``status`` call."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.conftest import Person

Shim = Callable[[str, str], Path]


@pytest.fixture
def shim(person: Person, tmp_path: Path) -> Shim:
    """Return a function (name, shell text) that puts a program first on the person's path."""
    folder = tmp_path / "shims"
    folder.mkdir()
    person.env["PATH"] = f"{folder}:{person.env['PATH']}"

    def make(name: str, text: str) -> Path:
        path = folder / name
        path.write_text(f'#!/bin/sh\necho {name} "$@" >> {tmp_path}/asked\n{text}\n')
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def site(shim: Shim) -> Shim:
    """Provide a Slurm with one partition that accepts every job and lists none."""
    shim("sinfo", "echo 'gpu-linuxlab|up|4:00:00|n1'")
    shim("scontrol", "echo 'NodeName=n1 BootTime=1000000000'")
    shim("sbatch", "exit 0")
    shim("squeue", "exit 0")
    return shim
