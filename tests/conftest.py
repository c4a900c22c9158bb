"""Settings of all tests: signal handlers, and groups of tests that share one xdist worker."""

from __future__ import annotations

import os
import signal
import tempfile
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

_LOGIN_NODES = (
    "test_connect.py",
    "test_ssh_tunnel.py",
    "test_stream_token.py",
    "test_sync_weights.py",
)
"""Tests outside tests/real that start an sshd, which shares /run/sshd with the test cluster's."""


def pytest_configure() -> None:
    """Remove hypothesis' deadline, and let Ctrl-C end the tests and their child processes.

    A shell that starts pytest in the background sets SIGINT to ignored, also for children. pytest
    imports readline, which with TERM=dumb sets COLUMNS for xdist's workers.
    """
    os.environ.pop("COLUMNS", None)
    hypothesis.settings.register_profile("daddy", deadline=None)
    hypothesis.settings.load_profile("daddy")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _no_copies_in_this_home() -> Any:
    """Set the folder of the weights' copies (``mirror.folder``) to a temporary one."""
    previous = os.environ.get("XDG_DATA_HOME")
    with tempfile.TemporaryDirectory(prefix="daddy-data-", ignore_cleanup_errors=True) as folder:
        os.environ["XDG_DATA_HOME"] = folder
        yield
    os.environ.pop("XDG_DATA_HOME")
    if previous is not None:
        os.environ["XDG_DATA_HOME"] = previous


def _group(nodeid: str) -> str:
    """Return the group of tests for one worker: a file, or all tests with a login node."""
    file = nodeid.partition("::")[0]
    together = file.startswith("tests/real/") or file.endswith(_LOGIN_NODES)
    return "tests/real" if together else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Return the scheduler that distributes tests to workers by group."""
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return GroupScheduling(config, log)
