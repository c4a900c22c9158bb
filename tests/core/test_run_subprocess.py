import os
import signal
import sys
import time

import pytest

from Daddy.core import host_and_processes, run_subprocess
from tests.patience import PATIENCE_S


def test_a_child_is_run_and_its_output_returned():
    done = run_subprocess.run_command(
        [sys.executable, "-c", "print(input()); raise SystemExit(3)"], 20, stdin="hi"
    )
    assert (done.returncode, done.stdout) == (3, "hi\n")


def test_a_child_that_takes_too_long_is_ended_with_all_it_started(tmp_path):
    script = f"sleep 100 & echo $! > {tmp_path}/pid; wait"
    with pytest.raises(run_subprocess.ProcessTimeoutError):
        run_subprocess.run_command(["sh", "-c", script], 3.0)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + PATIENCE_S
    while (found := host_and_processes.identify_process(pid)) and host_and_processes.is_alive(
        found
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_program_that_may_not_be_run_is_an_error_with_a_cure(tmp_path, monkeypatch):
    """The same error number as for a folder of PATH that cannot be entered, which root can."""
    (tmp_path / "quota").touch(0o644)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(run_subprocess.ProgramMissingError, match="quota cannot be run: Permission"):
        run_subprocess.run_command(["quota", "-w"], PATIENCE_S)


def test_a_grandchild_that_keeps_the_pipes_open_keeps_nobody_waiting(tmp_path):
    script = f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 3000' & sleep 3000"
    began = time.monotonic()
    with pytest.raises(run_subprocess.ProcessTimeoutError):
        run_subprocess.run_command(["sh", "-c", script], 3.0)
    waited = time.monotonic() - began
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert waited < PATIENCE_S


def test_a_missing_program_is_named():
    with pytest.raises(run_subprocess.ProgramMissingError, match="no-such-program"):
        run_subprocess.run_command(["no-such-program"], 1)


def test_a_background_child_is_known_by_pid_and_creation_and_ends_with_its_children(tmp_path):
    who = run_subprocess.start_background(
        ["sh", "-c", "sleep 100 & wait"], log_path=tmp_path / "log"
    )
    assert host_and_processes.is_alive(who)
    host_and_processes.terminate_tree(who, 1.0)
    assert not host_and_processes.is_alive(who)


def test_another_process_with_the_same_pid_is_a_stranger():
    me = host_and_processes.current_process()
    stranger = host_and_processes.ProcessId(me.pid, me.created - 100)
    assert host_and_processes.is_alive(me)
    assert not host_and_processes.is_alive(stranger)
    assert not host_and_processes.signal_process(stranger, signal.SIGKILL)


_CHILD = """
import os, pathlib, sys, time
from Daddy.core.host_and_processes import die_with_parent
die_with_parent()
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(60)
"""
_PARENT = """
import os, pathlib, subprocess, sys, time
note = pathlib.Path(sys.argv[1])
subprocess.Popen([sys.executable, "-c", sys.argv[2], str(note)])
while not (note.exists() and note.read_text()):
    time.sleep(0.02)
os.kill(os.getpid(), 9)
"""


def test_a_process_dies_with_its_parent(tmp_path):
    note = tmp_path / "pid"
    run_subprocess.run_command([sys.executable, "-c", _PARENT, str(note), _CHILD], PATIENCE_S)
    pid = int(note.read_text())
    deadline = time.monotonic() + PATIENCE_S
    while (found := host_and_processes.identify_process(pid)) and host_and_processes.is_alive(
        found
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_process_whose_parent_died_before_it_could_look_ends_itself():
    gone = run_subprocess.run_command(["sh", "-c", "echo $$"], PATIENCE_S).stdout.strip()
    script = f"from Daddy.core import host_and_processes as h; h.die_with_parent({gone}); print(1)"
    assert run_subprocess.run_command([sys.executable, "-c", script], PATIENCE_S).stdout == ""
