"""Tests of the pufferlib vector: sleeping waits, errors for dead processes, no leftovers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import psutil
import pytest

from Daddy.core.host_and_processes import ProcessId, identify_process, is_alive
from Daddy.learning import pufferlib_multiprocessing
from Daddy.learning.pufferlib_multiprocessing import EnvProcessError
from Daddy.learning.vector_pufferlib import PufferVector
from tests.learning.toys import Slow
from tests.patience import PATIENCE_S

ACTIONS = np.zeros(4, np.int64)
DRIVER = """
import sys, numpy as np
from Daddy.learning.vector_pufferlib import PufferVector
from tests.learning.toys import Slow
vector = PufferVector(Slow, 4, 2)
vector.reset(range(4))
print(*vector.pids, flush=True)
if sys.argv[1] == "leave":
    sys.exit()
while True:
    vector.step(np.zeros(4, np.int64))
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


def test_the_driver_sleeps_while_the_env_processes_play(vector: PufferVector) -> None:
    wall, cpu = time.monotonic(), time.process_time()
    for _ in range(25):
        vector.step(ACTIONS)
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    assert wall > 25 * 2 * 0.02
    assert cpu < 0.1 * wall


def test_env_processes_sleep_while_the_driver_learns(vector: PufferVector) -> None:
    vector.step(ACTIONS)
    before = sum(map(_cpu_seconds, vector.pids))
    time.sleep(1.0)
    assert sum(map(_cpu_seconds, vector.pids)) - before < 0.05


def _cpu_seconds(pid: int) -> float:
    return float(sum(psutil.Process(pid).cpu_times()[:2]))


def test_a_killed_env_process_is_an_error_within_seconds(vector: PufferVector) -> None:
    os.kill(vector.pids[0], signal.SIGKILL)
    with pytest.raises(EnvProcessError, match="exit code -9"):
        vector.step(ACTIONS)


def _play_on(vector: PufferVector, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        vector.send(vector.recv()[0], ACTIONS[:2])


def test_a_death_is_not_hidden_by_a_group_that_goes_on() -> None:
    vector = PufferVector(partial(Slow, 0.01), 4, 1, groups=2)
    try:
        vector.reset(range(4))
        os.kill(vector.pids[0], signal.SIGKILL)
        for group in range(2):
            vector.send(group, ACTIONS[:2])
        with pytest.raises(EnvProcessError, match="exit code -9"):
            _play_on(vector, PATIENCE_S)
    finally:
        vector.close()


def test_env_processes_in_the_middle_of_a_step_end_when_they_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pufferlib_multiprocessing, "_CLOSE_S", PATIENCE_S)
    vector = PufferVector(partial(Slow, 0.2), 4, 2, groups=2)
    vector.reset(range(4))
    family = processes(vector)
    for group in range(2):
        vector.send(group, ACTIONS[:2])
    time.sleep(0.05)
    workers = vector._puffer.processes
    vector.close()
    assert [worker.exitcode for worker in workers] == [0] * len(workers), "none was killed"
    assert gone_within(PATIENCE_S, family)


def test_an_env_process_killed_between_steps_does_not_lock_up_the_end(vector: PufferVector) -> None:
    family = processes(vector)
    os.kill(vector.pids[1], signal.SIGKILL)
    vector.close()
    assert gone_within(PATIENCE_S, family)


def test_signals_to_the_whole_job_leave_the_env_processes_to_the_driver(
    vector: PufferVector,
) -> None:
    """A draining learner still needs the environments for its last checkpoint."""
    for pid in vector.pids:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            os.kill(pid, number)
    time.sleep(0.1)
    vector.step(ACTIONS)
    assert all(map(is_alive, processes(vector)))


def test_closing_ends_the_env_processes(vector: PufferVector) -> None:
    family = processes(vector)
    assert len(family) == 2
    vector.close()
    assert gone_within(PATIENCE_S, family)


@pytest.mark.parametrize("end", ["kill", "leave"])
def test_no_env_process_outlives_its_driver(end: str) -> None:
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, end], stdout=subprocess.PIPE)
    try:
        assert driver.stdout is not None
        pids = [int(pid) for pid in driver.stdout.readline().split()]
        assert len(pids) == 2
        family = [who for pid in pids if (who := identify_process(pid))]
        if end == "kill":
            driver.kill()
        driver.wait(PATIENCE_S)
        assert gone_within(4, family)
    finally:
        driver.kill()
        driver.wait()
        driver.stdout.close()
