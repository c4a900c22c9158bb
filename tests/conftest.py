"""For every test: the same signals, however the tests were started, and who may run beside whom."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling


def pytest_configure() -> None:
    """A shell that starts us in the background has us, and what we start, ignore Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _Rooms(LoadScopeScheduling):
    """A file stays with one worker; the folder of the one Slurm cluster is as one file."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "tests/real" if file.startswith("tests/real/") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Who hands the tests to the workers."""
    return _Rooms(config, log)
