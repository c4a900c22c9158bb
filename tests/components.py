"""Checks for programs that tests need: a missing one skips the test, or fails it in CI."""

import os
import shutil
from typing import NoReturn

import pytest

_SYSTEM = ":/usr/sbin:/usr/local/sbin:/sbin"


def absent(component: str, why: str = "./scripts/test installs it when root") -> NoReturn:
    """Skip the test, or fail it in CI."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"missing component: {component} ({why})")
    pytest.skip(f"missing component: {component} ({why})")


def program(name: str, package: str) -> str:
    """Return the path of an installed program; skip or fail the test without it."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + _SYSTEM)
    return path or absent(package)
