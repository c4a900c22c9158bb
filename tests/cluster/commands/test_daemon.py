"""The daemon outlives the shell that started it, and reports to its starter."""

import os
import signal
import sys
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.commands import daemon
from Daddy.core.errors import DaddyError
from tests.cluster.conftest import ROOT, until

PROGRAM = """
import os, sys, time
from Daddy.cluster.orchestrator.commands import daemon
fd = int(sys.argv[sys.argv.index("--ready-fd") + 1])
facts = {"ok": True, "pid": os.getpid(), "session": os.getsid(0), "parent": os.getppid()}
print("up", flush=True)
daemon.send_report(fd, facts)
time.sleep(60)
"""
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}


def test_it_reports_from_a_session_of_its_own_and_writes_to_its_log(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "controller.log"
    told = daemon.start_daemon([sys.executable, "-c", PROGRAM], ENV, tmp_path, log, 30.0)
    try:
        assert told["session"] not in (os.getsid(0), told["pid"])  # it can never get a terminal
        assert told["parent"] != os.getpid()
        until(lambda: log.read_text() == "up\n")
    finally:
        os.kill(told["pid"], signal.SIGKILL)


def test_logs_that_cannot_be_written_are_the_starters_trouble(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    log = tmp_path / "logs" / "controller.log"
    with pytest.raises(FileExistsError):
        daemon.start_daemon([sys.executable, "-c", PROGRAM], ENV, tmp_path, log, 3.0)


def test_one_that_ends_at_once_is_told_with_its_log(tmp_path: Path) -> None:
    log = tmp_path / "controller.log"
    with pytest.raises(DaddyError, match="process ended at once") as told:
        daemon.start_daemon(
            [sys.executable, "-c", "raise SystemExit('no')"], ENV, tmp_path, log, 30.0
        )
    assert str(log) in told.value.fix
    assert log.read_text() == "no\n"


def test_one_that_says_nothing_is_told_too(tmp_path: Path) -> None:
    program = "import os, sys, time; print(os.getpid(), flush=True); time.sleep(60)"
    log = tmp_path / "controller.log"
    try:
        with pytest.raises(DaddyError, match="sent no report"):
            daemon.start_daemon([sys.executable, "-c", program], ENV, tmp_path, log, 3.0)
    finally:
        os.kill(int(log.read_text()), signal.SIGKILL)
