"""The SDK of Daytona, which no other part needs: from the environment, or runs/sdks."""

import importlib.util
import sys
from pathlib import Path

from tests.components import absent

FOLDER = Path(__file__).resolve().parents[2] / "runs" / "sdks"


def use_sdk(name: str) -> None:
    """Make an SDK importable, behind all that the environment has; skip or fail without it."""
    if importlib.util.find_spec(name):
        return
    if (FOLDER / name).is_dir():
        sys.path.append(str(FOLDER))
        return
    absent(f"the package {name}", "./scripts/sandbox_components installs it")
