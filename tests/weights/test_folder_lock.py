"""One transfer at a time in a laptop's folder: between real processes, also killed ones."""

import subprocess
import sys
from contextlib import contextmanager

import pytest

from Daddy.core.errors import NetworkError
from Daddy.weights.laptop.pull_push import lock_folder
from tests.weights.helpers import ManualClock

HOLDER = """
import sys, time
from pathlib import Path
from Daddy.core.clock import SystemClock
from Daddy.weights.laptop.pull_push import lock_folder
with lock_folder(Path(sys.argv[1]), SystemClock()):
    (Path(sys.argv[1]) / "wan" / ".tmp-1-half").write_bytes(b"half")
    print("held", flush=True)
    time.sleep(600)
"""


@contextmanager
def holder(folder):
    """Another process that holds this folder's lock."""
    (folder / "wan").mkdir()
    argv = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_while_another_is_at_work_it_is_waited_for_and_then_said_so(tmp_path):
    with holder(tmp_path):
        clock = ManualClock()
        before = clock.monotonic()
        with (
            pytest.raises(NetworkError, match=r"another sync_weights\.sh is at work"),
            lock_folder(tmp_path, clock, 3.0),
        ):
            raise AssertionError("both were let in")
        assert 3.0 <= clock.monotonic() - before < 4.0
        assert (tmp_path / "wan" / ".tmp-1-half").exists()


def test_the_turn_of_a_killed_process_is_free_and_its_half_files_go(tmp_path):
    with holder(tmp_path) as process:
        process.kill()
        process.wait()
    with lock_folder(tmp_path, ManualClock(), 0.0):
        assert not (tmp_path / "wan" / ".tmp-1-half").exists()


def test_it_comes_back_after_an_error(tmp_path):
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), lock_folder(tmp_path, ManualClock(), 0.0):
            raise ZeroDivisionError
