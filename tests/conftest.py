"""For every test: the same signals, however the tests were started."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """A shell that starts us in the background has us, and what we start, ignore Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
