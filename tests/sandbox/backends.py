"""The backends that the conformance suite runs on, each with a reason to skip it."""

import os
import sys
from collections.abc import Callable

import pytest

from Daddy.sandbox.sandbox_interfaces import Backend
from tests.components import program
from tests.sandbox.far_backends import apptainer, daytona, docker


def bubblewrap() -> Backend:
    if sys.platform != "linux":
        pytest.skip("bubblewrap needs Linux")
    program("bwrap", "bubblewrap")
    from Daddy.sandbox.bubblewrap import BubblewrapBackend

    return BubblewrapBackend()


def process() -> Backend:
    from Daddy.sandbox.process_backend import ProcessBackend

    return ProcessBackend()


BACKENDS: dict[str, Callable[[], Backend]] = {"process": process, "bubblewrap": bubblewrap}
"""A new backend joins the suite by a line here."""
LOCAL = ("process", "bubblewrap")
"""Backends with processes below the host's own, which a test can kill."""
if os.environ.get("DADDY_FAR_BACKENDS"):  # four minutes more
    BACKENDS |= {"apptainer": apptainer, "docker": docker, "daytona": daytona}
