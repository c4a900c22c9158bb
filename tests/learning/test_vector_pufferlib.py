"""Tests of the pufferlib vector: errors for dead processes, signals, no leftovers, its import."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Timer

import numpy as np
import pytest

from Daddy.core.host_and_processes import ProcessId, identify_process, is_alive
from Daddy.learning.vector_rows import EnvProcessError
from tests.learning.toys import Slow
from tests.patience import PATIENCE_S

if not find_spec("pufferlib"):
    pytest.skip("the extra pufferlib is not installed", allow_module_level=True)
from Daddy.learning.vector_pufferlib import PufferVector

ACTIONS = np.zeros(4, np.int64)
DRIVER = """
import sys
from Daddy.learning.startup_preloading import prepare_imports
prepare_imports()
import numpy as np
from Daddy.learning.vector_pufferlib import PufferVector
from tests.learning.toys import Slow
vector = PufferVector(Slow, 4, 2)
vector.reset(range(4))
try:
    print(*vector.pids, flush=True)
    while sys.argv[1] != "leave":
        vector.step(np.zeros(4, np.int64))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.fixture
def vector() -> Iterator[PufferVector]:
    vector = PufferVector(partial(Slow, 0.02), 4, 2)
    vector.reset(range(4))
    yield vector
    vector.close()


def processes(vector: PufferVector) -> list[ProcessId]:
    return [who for pid in vector.pids if (who := identify_process(pid))]


def gone_within(seconds: float, family: list[ProcessId]) -> bool:
    end = time.monotonic() + seconds
    while any(map(is_alive, family)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(is_alive, family))


@pytest.mark.parametrize("groups", [1, 2])
def test_a_killed_env_process_is_an_error_while_pufferlib_polls_for_it(groups: int) -> None:
    """pufferlib's own `recv` never returns then."""
    vector = PufferVector(partial(Slow, PATIENCE_S), 4, 1, groups)
    try:
        vector.reset(range(4))
        for group, members in enumerate(vector.groups):
            vector.send(group, ACTIONS[members])
        Timer(0.3, os.kill, (vector.pids[-1], signal.SIGKILL)).start()
        with pytest.raises(EnvProcessError, match="exit code -9"):
            vector.recv()
    finally:
        vector.close()


def test_a_later_vector_does_not_take_the_watch_from_the_first() -> None:
    first = PufferVector(partial(Slow, PATIENCE_S), 4, 1)
    later = PufferVector(Slow, 4, 1)
    try:
        first.reset(range(4))
        later.reset(range(4))
        first.send(0, ACTIONS)
        Timer(0.3, os.kill, (first.pids[0], signal.SIGKILL)).start()
        with pytest.raises(EnvProcessError, match="exit code -9"):
            first.recv()
    finally:
        first.close()
        later.close()


def test_an_env_process_killed_between_steps_is_an_error_and_does_not_lock_up_the_end(
    vector: PufferVector,
) -> None:
    family = processes(vector)
    os.kill(vector.pids[1], signal.SIGKILL)
    os.waitid(os.P_PID, vector.pids[1], os.WEXITED | os.WNOWAIT)
    with pytest.raises(EnvProcessError, match="exit code -9"):
        vector.step(ACTIONS)
    vector.close()
    assert gone_within(PATIENCE_S, family)


def test_signals_to_the_whole_job_leave_the_env_processes_to_the_driver(
    vector: PufferVector,
) -> None:
    """A draining learner still needs the environments; pufferlib's own processes end by SIGTERM."""
    for pid in vector.pids:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            os.kill(pid, number)
    for _ in range(3):
        vector.step(ACTIONS)
    assert len(processes(vector)) == 2
    assert all(map(is_alive, processes(vector)))


def test_closing_ends_the_env_processes_also_in_the_middle_of_a_step() -> None:
    vector = PufferVector(partial(Slow, PATIENCE_S), 4, 2)
    vector.reset(range(4))
    family = processes(vector)
    assert len(family) == 2
    vector.send(0, ACTIONS)
    vector.close()
    assert gone_within(PATIENCE_S, family)


@pytest.mark.parametrize("end", ["kill", "leave", "ctrl-c"])
def test_no_env_process_outlives_its_driver(end: str) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, end],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert driver.stdout is not None
        pids = [int(pid) for pid in driver.stdout.readline().split()]
        assert len(pids) == 2
        family = [who for pid in pids if (who := identify_process(pid))]
        if end == "kill":
            driver.kill()
        elif end == "ctrl-c":
            os.killpg(driver.pid, signal.SIGINT)
        said = driver.communicate(timeout=PATIENCE_S)
        assert said == ("interrupted\n" if end == "ctrl-c" else "", ""), "no traceback"
        assert gone_within(PATIENCE_S, family)
    finally:
        driver.kill()
        driver.wait()


def imported(**variables: str) -> subprocess.CompletedProcess[str]:
    """Import the adapter in a child, as a learner does."""
    code = "import Daddy.learning.startup_preloading as p; p.prepare_imports()"
    code += "; import Daddy.learning.vector_pufferlib"
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


def test_pufferlib_is_loaded_without_a_word() -> None:
    done = imported()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "layout", ["", "from pufferlib.vectors import make", "raise ValueError('numpy.dtype size')"]
)
def test_another_layout_of_pufferlib_is_a_usage_error(tmp_path: Path, layout: str) -> None:
    (tmp_path / "pufferlib").mkdir()
    (tmp_path / "pufferlib" / "__init__.py").write_text(layout)
    done = imported(PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "UsageError: vector_backend pufferlib cannot be used here: " in done.stderr
    assert "-e '.[pufferlib]'" in done.stderr
