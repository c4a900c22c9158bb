"""Nothing of a pool is left after its host process was killed, interrupted or stopped."""

import contextlib
import ctypes
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.patience import PATIENCE_S, until
from tests.sandbox.backends import BACKENDS, LOCAL

ROOT = Path(__file__).resolve().parents[2]
SET_CHILD_SUBREAPER = 36
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux")


@pytest.fixture(params=LOCAL)
def name(request: pytest.FixtureRequest) -> str:
    BACKENDS[request.param]()
    return str(request.param)


@pytest.fixture(autouse=True)
def _adopt_orphans() -> Iterator[None]:
    """Let the kernel make each orphan below this process its child, so that none is overlooked."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    assert prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    assert prctl(SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0


class Left:
    """Finds whatever a test leaves: processes, mounts, and files in its own temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes, self.mounts = offspring(), mounts()

    def find(self) -> list[object]:
        living = [p for p in offspring() if p not in self.processes]
        return [*living, *self.folder.iterdir(), *(mounts() - self.mounts)]


@contextlib.contextmanager
def pool_host(name: str, left: Left, lifetime_s: float = 3600) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "tests.sandbox.pool_host", name, str(lifetime_s)]
    env = {**os.environ, "TMPDIR": str(left.folder), "PYTHONPATH": str(ROOT)}
    host = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env, cwd=ROOT)
    try:
        yield host
    finally:
        host.kill()
        host.communicate(timeout=PATIENCE_S)
        for process in offspring():
            if process not in left.processes:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()


def offspring() -> list[psutil.Process]:
    """Return the living processes below this one; reap those that were adopted and have ended."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
            elif process.ppid() == os.getpid():
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)
    return found


def mounts() -> set[str]:
    return set(Path("/proc/self/mountinfo").read_text().splitlines())


def wait_for_lines(host: subprocess.Popen[str], count: int) -> None:
    assert host.stdout
    for _ in range(count):
        assert host.stdout.readline()


def test_nothing_is_left_after_ten_kills_at_random_moments(name: str, tmp_path: Path) -> None:
    """A moment is a number of events: from the first line, during creation, to many commands."""
    draw, left = random.Random(40), Left(tmp_path)
    for moment in [1, *(draw.randrange(2, 30) for _ in range(9))]:
        with pool_host(name, left) as host:
            wait_for_lines(host, moment)
            if moment > 10:
                assert len(left.find()) > 4, "there is something that could be left"
            host.kill()
            host.wait(PATIENCE_S)
            assert until(lambda: not left.find()), left.find()


def test_nothing_is_left_after_ctrl_c(name: str, tmp_path: Path) -> None:
    left = Left(tmp_path)
    for moment in (1, 5, 30):
        with pool_host(name, left) as host:
            wait_for_lines(host, moment)
            host.send_signal(signal.SIGINT)
            assert host.stdout
            host.stdout.read()
            assert host.wait(PATIENCE_S) in (-signal.SIGINT, 130, 1)
            assert until(lambda: not left.find()), left.find()


def test_sandboxes_of_a_stopped_host_end_at_their_lifetime(name: str, tmp_path: Path) -> None:
    left = Left(tmp_path)
    with pool_host(name, left, lifetime_s=3) as host:
        wait_for_lines(host, 10)
        host.send_signal(signal.SIGSTOP)
        assert len(left.find()) > 1
        alone = [psutil.Process(host.pid)]
        assert until(lambda: left.find() == alone), left.find()
