"""Installs other versions of libraries under runs/, which a child imports before the venv's."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from Daddy.core.run_subprocess import run_command
from tests.components import absent

GYMNASIUMS = {"0.29": "gymnasium==0.29.1", "1": "gymnasium==1.4.0"}
SB3 = "stable-baselines3==2.9.2"
_FOLDER = Path(__file__).parents[2] / "runs" / "libraries"


def environ_with(*pins: str) -> dict[str, str]:
    """Return the environment of a child that imports `pins`; skip or fail the test without them."""
    folders = [str(_installed(pin)) for pin in pins]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


def _installed(pin: str) -> Path:
    """Return the folder of a package, without its dependencies; install it if it is absent."""
    folder = _FOLDER / f"{pin}-{sys.implementation.cache_tag}"
    if not folder.exists():
        _FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_FOLDER) as fresh:
            argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
            done = run_command([*argv, f"{fresh}/new", pin], 300)
            if done.returncode != 0:
                absent(pin, f"pip said: {done.stderr.strip()[-300:]}")
            if not folder.exists():  # another worker may have been faster
                shutil.move(f"{fresh}/new", folder)
    return folder
