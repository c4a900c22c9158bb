"""Tests that programs beside the controller are restarted, and end with it."""

import os
import signal
import sys
from pathlib import Path

from Daddy.cluster.orchestrator.child_processes import ChildPrograms
from Daddy.core.clock import SystemClock
from Daddy.core.host_and_processes import identify_process, is_alive
from tests.cluster.conftest import until

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_a_companion_that_ends_is_started_again_and_all_end_together(tmp_path: Path) -> None:
    kept = ChildPrograms({"relay": SLEEPER}, tmp_path, os.environ, SystemClock())
    try:
        kept.restart_ended()
        first = kept.pids()["relay"]
        assert first is not None
        os.kill(first, signal.SIGKILL)

        def back() -> bool:
            kept.restart_ended()
            return kept.pids()["relay"] not in (None, first)

        until(back)
        second = kept.pids()["relay"]
        assert second is not None
        who = identify_process(second)
    finally:
        kept.end_all(grace_s=1.0)
    assert kept.pids() == {"relay": None}
    assert who is not None
    assert not is_alive(who)


def test_a_companion_that_fails_at_once_is_tried_less_and_less_often(tmp_path: Path) -> None:
    kept = ChildPrograms(
        {"broken": [sys.executable, "-c", "print('tried')"]}, tmp_path, os.environ, SystemClock()
    )
    log = tmp_path / "broken.log"
    kept.restart_ended()
    until(lambda: log.exists() and "tried" in log.read_text())
    until(lambda: kept.pids()["broken"] is None)
    for _ in range(20):
        kept.restart_ended()
    assert log.read_text().count("tried") == 1
    kept.end_all()
