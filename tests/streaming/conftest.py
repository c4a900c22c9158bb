"""Fixtures of the stream's tests: a run, a token and a viewer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from Daddy.core.clock import SystemClock
from Daddy.streaming.protocol.handshake import ensure_token, load_tokens
from Daddy.streaming.protocol.messages import Subscription
from Daddy.streaming.viewer.receiver import Receiver


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder with its stream folder."""
    folder = tmp_path / "slim_run"
    (folder / "stream").mkdir(parents=True)
    return folder


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    ensure_token(path, "test")
    return path


@pytest.fixture
def viewer(token: Path) -> Iterator[Receiver]:
    """A viewer of two agents without a window."""
    made = Receiver(0, lambda: load_tokens([token]), Subscription(2, 60.0), SystemClock())
    yield made
    made.close()
