"""What a test needs from the machine: a skip that names it, and in CI a failure."""

import os
import shutil
from typing import NoReturn

import pytest

_SYSTEM = ":/usr/sbin:/usr/local/sbin:/sbin"


def absent(what: str) -> NoReturn:
    """End the test: in CI nothing may be skipped."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"missing component: {what} (./scripts/test installs it when root)")
    pytest.skip(f"missing component: {what} (./scripts/test installs it when root)")


def program(name: str, package: str) -> str:
    """Path of an installed program, or the end of the test."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + _SYSTEM)
    return found or absent(package)
