"""For every test: the same signals, however the tests were started, and who may run beside whom."""

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
"""Outside tests/real, but with an sshd of their own: it and the cluster's share /run/sshd."""


def pytest_configure() -> None:
    """No example has a deadline; Ctrl-C reaches us and what we start.

    A shell that starts us in the background has us, and what we start, ignore Ctrl-C.
    """
    hypothesis.settings.register_profile("daddy", deadline=None)
    hypothesis.settings.load_profile("daddy")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _no_copies_in_this_home() -> Any:
    """A controller under test keeps its copy (``mirror.folder``) out of the tester's home."""
    kept = os.environ.get("XDG_DATA_HOME")
    with tempfile.TemporaryDirectory(prefix="daddy-data-", ignore_cleanup_errors=True) as folder:
        os.environ["XDG_DATA_HOME"] = folder
        yield
    os.environ.pop("XDG_DATA_HOME")
    if kept is not None:
        os.environ["XDG_DATA_HOME"] = kept


def _room(nodeid: str) -> str:
    """Who stays with one worker: a file, and all that raises a login node."""
    file = nodeid.partition("::")[0]
    together = file.startswith("tests/real/") or file.endswith(_LOGIN_NODES)
    return "tests/real" if together else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Who hands the tests to the workers."""
    from xdist.scheduler import LoadScopeScheduling

    class Rooms(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _room(nodeid)

    return Rooms(config, log)
