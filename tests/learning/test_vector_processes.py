"""Tests of env processes: sleeping waits, errors for dead processes, no leftovers."""

import gc
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from Daddy.core.host_and_processes import ProcessId, identify_process, is_alive
from Daddy.learning import vector_processes, vector_worker
from Daddy.learning.vector_processes import ProcessVector
from Daddy.learning.vector_rows import EnvProcessError
from tests.learning.toys import Chattering, Parental, Quitting, Slow, Unmakeable, Unsendable
from tests.patience import PATIENCE_S

ACTIONS = np.zeros(4, np.int64)
METHODS = ("fork", "forkserver", "spawn") if sys.platform == "linux" else ("spawn",)
DRIVER = """
import os, signal, sys, numpy as np
from functools import partial
from Daddy.learning.vector_processes import ProcessVector
from tests.learning.toys import SlowToSave
if __name__ == "__main__":
    seconds = 600.0 if sys.argv[1] == "hang" else 0.0
    vector = ProcessVector(partial(SlowToSave, seconds), 4, 1, groups=2, context=sys.argv[2])
    vector.reset(range(4))
    if sys.argv[1] == "hang":
        vector.send(0, np.zeros(2, np.int64))
        vector.send(1, np.zeros(2, np.int64))
    print(*vector.pids, flush=True)
    if sys.argv[1] == "break off":
        os.write(vector._processes._connections[0].fileno(), b"m")
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[1] == "leave":
        sys.exit()
    if sys.argv[1] == "save":
        vector.save_states()
    while True:
        vector.step(np.zeros(4, np.int64))
"""


@pytest.fixture
def vector() -> Iterator[ProcessVector]:
    vector = ProcessVector(partial(Slow, 0.02), 4, 2)
    vector.reset(range(4))
    yield vector
    vector.close()


def processes(vector: ProcessVector) -> list[ProcessId]:
    return [who for pid in vector.pids if (who := identify_process(pid))]


def gone_within(seconds: float, family: list[ProcessId]) -> bool:
    end = time.monotonic() + seconds
    while any(map(is_alive, family)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(is_alive, family))


def test_the_driver_sleeps_while_the_env_processes_play(vector: ProcessVector) -> None:
    wall, cpu = time.monotonic(), time.process_time()
    for _ in range(25):
        vector.step(ACTIONS)
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    assert wall > 25 * 2 * 0.02
    assert cpu < 0.1 * wall


def test_env_processes_sleep_while_the_driver_learns(vector: ProcessVector) -> None:
    vector.step(ACTIONS)
    before = sum(map(_cpu_seconds, vector.pids))
    time.sleep(1.0)
    assert sum(map(_cpu_seconds, vector.pids)) - before < 0.05


def _cpu_seconds(pid: int) -> float:
    return float(sum(psutil.Process(pid).cpu_times()[:2]))


def test_a_killed_env_process_is_an_error_within_seconds(vector: ProcessVector) -> None:
    os.kill(vector.pids[0], signal.SIGKILL)
    with pytest.raises(EnvProcessError, match="exit code -9"):
        vector.step(ACTIONS)


def test_a_death_is_not_hidden_by_a_process_that_the_environment_forked() -> None:
    vector = ProcessVector(partial(Parental, PATIENCE_S), 1, 1, context=METHODS[0])
    try:
        vector.reset(range(1))
        (forked,) = psutil.Process(vector.pids[0]).children()
        vector.send(0, ACTIONS[:1])
        os.kill(vector.pids[0], signal.SIGKILL)
        try:
            with pytest.raises(EnvProcessError, match="exit code -9"):
                vector.recv()
            assert forked.status() != psutil.STATUS_ZOMBIE
        finally:
            forked.kill()
    finally:
        vector.close()


def _play_on(vector: ProcessVector, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        vector.send(vector.recv()[0], ACTIONS[:2])


def test_a_death_is_not_hidden_by_a_group_that_goes_on() -> None:
    vector = ProcessVector(partial(Slow, 0.01), 4, 1, groups=2)
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
    monkeypatch.setattr(vector_processes, "_CLOSE_S", PATIENCE_S)
    vector = ProcessVector(partial(Slow, 0.2), 4, 2, groups=2)
    vector.reset(range(4))
    family = processes(vector)
    for group in range(2):
        vector.send(group, ACTIONS[:2])
    time.sleep(0.05)
    workers = vector._processes.processes
    vector.close()
    assert [worker.exitcode for worker in workers] == [0] * len(workers), "none was killed"
    assert gone_within(PATIENCE_S, family)


def test_an_env_process_killed_between_steps_does_not_lock_up_the_end(
    vector: ProcessVector,
) -> None:
    family = processes(vector)
    os.kill(vector.pids[1], signal.SIGKILL)
    vector.close()
    assert gone_within(PATIENCE_S, family)


def test_signals_to_the_whole_job_leave_the_env_processes_to_the_driver(
    vector: ProcessVector,
) -> None:
    """A draining learner still needs the environments for its last checkpoint."""
    for pid in vector.pids:
        for number in vector_worker.LEFT_TO_DRIVER:
            os.kill(pid, number)
    time.sleep(0.1)
    vector.step(ACTIONS)
    assert all(map(is_alive, processes(vector)))


def test_closing_ends_the_env_processes(vector: ProcessVector) -> None:
    family = processes(vector)
    assert len(family) == 2
    vector.close()
    assert gone_within(PATIENCE_S, family)


@pytest.fixture
def driver() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts drivers of two env processes, and ends them."""
    started: list[subprocess.Popen[bytes]] = []

    def start(end: str, method: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-c", DRIVER, end, method]
        started.append(subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return started[-1]

    yield start
    for driver in started:
        driver.kill()
        driver.communicate()


def family_of(driver: subprocess.Popen[bytes]) -> list[ProcessId]:
    assert driver.stdout is not None
    pids = [int(pid) for pid in driver.stdout.readline().split()]
    assert len(pids) == 2
    return [who for pid in pids if (who := identify_process(pid))]


@pytest.mark.parametrize(
    ("end", "method"), [*(("kill", method) for method in METHODS), ("leave", METHODS[0])]
)
def test_no_env_process_outlives_its_driver(
    driver: Callable[..., subprocess.Popen[bytes]], end: str, method: str
) -> None:
    ended = driver(end, method)
    family = family_of(ended)
    if end == "kill":
        ended.kill()
    ended.wait(PATIENCE_S)
    assert gone_within(PATIENCE_S, family)


@pytest.mark.parametrize("method", METHODS)
def test_no_env_process_that_hangs_outlives_its_driver(
    driver: Callable[..., subprocess.Popen[bytes]], method: str
) -> None:
    hanging = driver("hang", method)
    family = family_of(hanging)
    hanging.kill()
    hanging.wait(PATIENCE_S)
    try:
        assert gone_within(PATIENCE_S, family)
    finally:
        for process in filter(is_alive, family):
            os.kill(process.pid, signal.SIGKILL)


def test_a_driver_that_is_killed_in_a_command_leaves_no_traceback(
    driver: Callable[..., subprocess.Popen[bytes]],
) -> None:
    killed = driver("break off", METHODS[0])
    assert gone_within(PATIENCE_S, family_of(killed))
    assert b"Traceback" not in killed.communicate(timeout=PATIENCE_S)[1]


@pytest.mark.parametrize("victims", ["driver", "one", "all"])
@pytest.mark.parametrize("seed", range(2))
def test_a_kill_at_a_random_time_leaves_nothing(
    driver: Callable[..., subprocess.Popen[bytes]], victims: str, seed: int
) -> None:
    """The driver raises for a dead env process, and ends the others."""
    before = shared_memory_files()
    killed = driver("play", "fork")
    family = family_of(killed)
    time.sleep(random.Random(seed).random() * 0.1)
    if victims == "driver":
        killed.kill()
    for process in {"driver": [], "one": family[:1], "all": family}[victims]:
        os.kill(process.pid, signal.SIGKILL)
    _, stderr = killed.communicate(timeout=PATIENCE_S)
    assert killed.returncode == (-signal.SIGKILL if victims == "driver" else 1)
    assert victims == "driver" or b"ended with exit code -9" in stderr
    assert gone_within(PATIENCE_S, family)
    assert shared_memory_files() <= before


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("moment", ["play", "save"])
def test_a_killed_driver_leaves_nothing_in_the_temporary_folder(
    driver: Callable[..., subprocess.Popen[bytes]],
    method: str,
    moment: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither the fork server's socket nor states that are being saved."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    killed = driver(moment, method)
    family = family_of(killed)
    if moment == "save":
        assert killed.stdout
        assert killed.stdout.readline() == b"saving\n"
    killed.kill()
    killed.wait(PATIENCE_S)
    assert gone_within(PATIENCE_S, family)
    assert list(tmp_path.iterdir()) == []


def shared_memory_files() -> set[str]:
    """Return the names in /dev/shm that a process of ours could have made."""
    ours = re.compile("daddy|psm_|pym|sem\\.")
    folder = Path("/dev/shm")  # Linux only
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    return {name for name in names if ours.match(name)}


def test_a_closed_vector_leaves_no_descriptor() -> None:
    def play() -> None:
        vector = ProcessVector(Slow, 4, 2, groups=2)
        vector.reset(range(4))
        vector.step(ACTIONS)
        vector.close()

    play()  # imports and caches
    gc.collect()
    before = psutil.Process().num_fds()
    play()
    gc.collect()
    assert psutil.Process().num_fds() == before


def test_a_vector_closes_while_a_later_one_plays_on() -> None:
    """The later one's processes were forked while the first one's connections were open."""
    first, later = (ProcessVector(Slow, 4, 2, context=METHODS[0]) for _ in range(2))
    try:
        first.reset(range(4))
        later.reset(range(4))
        workers = first._processes.processes
        first.close()
        assert [worker.exitcode for worker in workers] == [0] * len(workers), "none was killed"
        later.step(ACTIONS)
    finally:
        first.close()
        later.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes are spawned")
def test_a_temporary_folder_with_a_long_name_does_not_stop_the_start(
    driver: Callable[..., subprocess.Popen[bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The path of the fork server's socket has room for 107 bytes."""
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    left = driver("leave", "forkserver")
    family_of(left)
    assert left.wait(PATIENCE_S) == 0
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes are spawned")
def test_nothing_is_forked_beside_a_thread() -> None:
    code = """
import threading
from Daddy.learning.vector_processes import start_method
print(start_method())
threading.Thread(target=threading.Event().wait, daemon=True).start()
print(start_method())
"""
    said = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert said.stdout.split() == ["fork", "forkserver"]


@pytest.mark.parametrize(
    ("env_fn", "said"),
    [
        (Quitting, "the player went home"),
        (Unsendable, "the info of an episode's end cannot be pickled.*lambda"),
    ],
)
def test_an_error_of_an_environment_arrives_with_its_own_words(env_fn: Any, said: str) -> None:
    vector = ProcessVector(env_fn, 4, 2)
    try:
        vector.reset(range(4))
        vector.step(ACTIONS)
        with pytest.raises(EnvProcessError, match=said):
            vector.step(ACTIONS + 1)
    finally:
        vector.close()


def test_an_environment_that_cannot_be_made_says_so_at_the_first_command() -> None:
    vector = ProcessVector(Unmakeable, 4, 2)
    try:
        with pytest.raises(EnvProcessError, match="there is no console here"):
            vector.reset(range(4))
    finally:
        vector.close()


def test_large_infos_arrive_whole_from_all_groups() -> None:
    """Each is larger than a socket holds, so its env process waits until the driver reads."""
    vector = ProcessVector(Chattering, 8, 2, groups=2)
    try:
        vector.reset(range(8))
        for _ in range(3):
            ended = vector.step(np.zeros(8, np.int64)).episodes
            assert [(end.env, len(end.info["text"])) for end in ended] == [
                (env, 1_000_000) for env in range(8)
            ]
    finally:
        vector.close()


def test_a_death_in_the_middle_of_an_answer_is_a_death() -> None:
    vector = ProcessVector(Chattering, 1, 1)
    try:
        vector.reset(range(1))
        vector.send(0, np.zeros(1, np.int64))
        wait(vector._processes._connections)  # the rest of the answer has no room yet
        os.kill(vector.pids[0], signal.SIGKILL)
        with pytest.raises(EnvProcessError, match="exit code -9"):
            vector.recv()
    finally:
        vector.close()


def test_a_lack_of_disk_is_an_error_when_the_memory_is_made(tmp_path: Path) -> None:
    """Later it would be a SIGBUS. Without memfd, as on macOS, the memory is a file."""
    code = """
import os, resource
if hasattr(os, "memfd_create"):
    del os.memfd_create
resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
from Daddy.learning.vector_processes import ProcessVector
from tests.learning.toys import Slow
try:
    ProcessVector(Slow, 4, 2)
except OSError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert (done.returncode, done.stdout) == (0, "[Errno 27] File too large\n"), done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", METHODS)
def test_an_unlinked_file_serves_as_memory(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    vector = ProcessVector(Slow, 4, 2, context=method)
    try:
        vector.reset(range(4))
        assert vector.step(ACTIONS + 1).observations["x"][:, 0].tolist() == [1.0] * 4
    finally:
        vector.close()


@pytest.mark.parametrize("long_turn_s", [-1.0, float("inf")])
def test_only_a_driver_with_long_turns_moves_to_the_core_of_a_finished_group(
    monkeypatch: pytest.MonkeyPatch, long_turn_s: float
) -> None:
    cores: list[int] = []
    monkeypatch.setattr(vector_processes, "move_to_core", cores.append)
    monkeypatch.setattr(vector_processes, "_LONG_TURN_S", long_turn_s)
    vector = ProcessVector(Slow, 4, 2, groups=2)
    vector.reset(range(4))
    for _ in range(3):
        vector.step(ACTIONS)
    vector.close()
    assert len(cores) == (6 if long_turn_s < 0 else 0)
    if sys.platform == "linux":
        assert set(cores) <= os.sched_getaffinity(0)


KILLED_DRIVER = """
import os, signal, subprocess, sys
entry = [sys.executable, "-c", "import Daddy.learning.env_process_entry"]
child = subprocess.Popen(entry, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
print(child.pid, child.stdout.readline(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_still_imports_ends_with_its_driver(tmp_path: Path) -> None:
    slow = 'import time\nprint("importing", flush=True)\nwhile True:\n    time.sleep(1.0)\n'
    (tmp_path / "gymnasium.py").write_text(slow)
    path = os.pathsep.join([str(tmp_path), str(Path.cwd())])
    argv = [sys.executable, "-c", KILLED_DRIVER]
    env = {**os.environ, "PYTHONPATH": path}
    told = subprocess.run(argv, env=env, capture_output=True, text=True, check=False).stdout
    pid, word = told.split()
    assert word == "importing"
    child = identify_process(int(pid))
    try:
        assert child is None or gone_within(PATIENCE_S, [child])
    finally:
        if child and is_alive(child):
            os.kill(child.pid, signal.SIGKILL)
