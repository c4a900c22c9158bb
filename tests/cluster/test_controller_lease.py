"""Tests that a run has one controller, on one host and across two."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator import controller_lease
from Daddy.core.clock import SystemClock
from Daddy.core.errors import ControllerAliveError, ExitCode
from Daddy.core.lease import Lease, read_lease
from Daddy.core.run_paths import RunPaths
from tests.patience import PATIENCE_S

ELSEWHERE = {"host": "login-2", "pid": 4711, "created": 1.0, "user": "ada"}
CLOCK = SystemClock()


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    return RunPaths(tmp_path)


def test_the_first_takes_the_run_and_the_second_is_told_who_has_it(run: RunPaths) -> None:
    lease = controller_lease.become_controller(run, CLOCK)
    assert controller_lease.is_controller_alive(run) is True
    with pytest.raises(ControllerAliveError, match=r"pid \d+") as told:
        controller_lease.become_controller(run, CLOCK)
    assert told.value.exit_code is ExitCode.CONTROLLER_ALIVE
    lease.release("done")
    assert controller_lease.is_controller_alive(run) is False
    assert controller_lease.become_controller(run, CLOCK).term == 2


def test_a_killed_controller_of_this_host_is_replaced_at_once(run: RunPaths) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    holder = {**controller_lease.make_holder_record(CLOCK), "pid": gone.pid, "created": 1.0}
    gone.wait(timeout=PATIENCE_S)
    Lease.acquire(run.controller_lease, holder)
    assert controller_lease.is_controller_alive(run) is False
    assert controller_lease.become_controller(run, CLOCK).term == 2


def test_a_silent_controller_of_another_host_is_replaced_and_finds_itself_fenced(
    run: RunPaths,
) -> None:
    theirs = Lease.acquire(run.controller_lease, ELSEWHERE)
    assert theirs is not None
    theirs.beat()
    assert controller_lease.is_controller_alive(run) is None
    ours = controller_lease.become_controller(run, CLOCK, silence_s=0.3)
    assert ours.term == 2
    assert not theirs.held()


def test_a_pass_that_began_between_look_and_claim_is_waited_for(
    run: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sidecar claims first: a daemon waits for its pass, another single pass gives up."""
    look, begun = controller_lease.find_live_controller, []

    def just_missed(*args: object, **options: object) -> object:
        seen = look(*args, **options)
        if not begun:
            begun.append(
                Lease.acquire(
                    run.controller_lease, controller_lease.make_holder_record(CLOCK, passing=True)
                )
            )
            threading.Timer(0.3, begun[0].release, ["one pass was made"]).start()
        return seen

    monkeypatch.setattr(controller_lease, "find_live_controller", just_missed)
    assert controller_lease.become_controller(run, CLOCK).term == 2
    assert begun[0] is not None


def test_who_makes_a_pass_does_not_queue_for_another(
    run: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_lease, "find_live_controller", lambda *_, **__: None)
    assert (
        Lease.acquire(
            run.controller_lease, controller_lease.make_holder_record(CLOCK, passing=True)
        )
        is not None
    )
    with pytest.raises(ControllerAliveError):
        controller_lease.become_controller(run, CLOCK, passing=True)


def test_a_beating_controller_of_another_host_is_left_alone(run: RunPaths) -> None:
    theirs = Lease.acquire(run.controller_lease, ELSEWHERE)
    assert theirs is not None
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(0.05):
            theirs.beat()

    heart = threading.Thread(target=beat)
    heart.start()
    try:
        with pytest.raises(ControllerAliveError, match="login-2, started by ada"):
            controller_lease.become_controller(run, CLOCK, silence_s=5.0)
    finally:
        stop.set()
        heart.join()
    assert theirs.held()
    view = read_lease(run.controller_lease)
    assert view is not None
    assert view.term == 1
