"""Tests that a run has one controller, on one host and across two."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator import controller_lease
from Daddy.cluster.orchestrator.control_files import read_answered
from Daddy.cluster.orchestrator.controller_types import Snapshot, UnknownQueue
from Daddy.cluster.orchestrator.decisions.controller_failover import GIVEN_UP
from Daddy.core.clock import SystemClock
from Daddy.core.errors import ControllerAliveError, ExitCode, SchedulerError
from Daddy.core.lease import Lease, read_lease
from Daddy.core.run_paths import RunPaths
from tests.cluster.conftest import until
from tests.patience import PATIENCE_S

ELSEWHERE = {"host": "login-2", "pid": 4711, "created": 1.0, "user": "ada"}
CLOCK = SystemClock()


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    return RunPaths(tmp_path)


def test_the_first_takes_the_run_and_the_second_is_told_who_has_it(run: RunPaths) -> None:
    lease = controller_lease.become_controller(run, CLOCK)
    with pytest.raises(ControllerAliveError, match=r"pid \d+") as told:
        controller_lease.become_controller(run, CLOCK)
    assert told.value.exit_code is ExitCode.CONTROLLER_ALIVE
    lease.release("done")
    assert controller_lease.become_controller(run, CLOCK).term == 2


def test_a_killed_controller_of_this_host_is_replaced_at_once(run: RunPaths) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    holder = {**controller_lease.make_holder_record(CLOCK), "pid": gone.pid, "created": 1.0}
    gone.wait(timeout=PATIENCE_S)
    Lease.acquire(run.controller_lease, holder)
    assert controller_lease.become_controller(run, CLOCK).term == 2


def test_a_silent_controller_of_another_host_is_replaced_and_finds_itself_fenced(
    run: RunPaths,
) -> None:
    theirs = Lease.acquire(run.controller_lease, ELSEWHERE)
    assert theirs is not None
    theirs.beat()
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


def test_nobody_who_cannot_read_the_queue_claims_the_lease(run: RunPaths) -> None:
    with pytest.raises(SchedulerError, match="squeue is not installed") as told:
        controller_lease.become_controller(
            run, CLOCK, list_queue=lambda: UnknownQueue(0.0, "squeue is not installed")
        )
    assert "run_controller start" in told.value.fix
    assert read_lease(run.controller_lease) is None


def test_a_blind_controller_is_asked_by_those_alone_whose_listing_answers(run: RunPaths) -> None:
    theirs = Lease.acquire(run.controller_lease, controller_lease.make_holder_record(CLOCK))
    assert theirs is not None
    theirs.beat({"blind_s": 70})
    with pytest.raises(SchedulerError):
        controller_lease.become_controller(
            run, CLOCK, list_queue=lambda: UnknownQueue(0.0, "no answer")
        )
    assert read_answered(run) is None

    def give_way() -> None:
        until(lambda: read_answered(run))
        theirs.release(GIVEN_UP)

    holder = threading.Thread(target=give_way)
    holder.start()
    ours = controller_lease.become_controller(run, CLOCK, list_queue=lambda: Snapshot(0.0, ()))
    holder.join()
    assert ours.term == 2


def test_a_blind_controller_that_can_read_again_keeps_the_lease(run: RunPaths) -> None:
    theirs = Lease.acquire(run.controller_lease, controller_lease.make_holder_record(CLOCK))
    assert theirs is not None
    theirs.beat({"blind_s": 70})

    def listing() -> Snapshot:
        theirs.beat()  # between our look at the lease and our record
        return Snapshot(0.0, ())

    with pytest.raises(ControllerAliveError):
        controller_lease.become_controller(run, CLOCK, list_queue=listing)
    assert theirs.held()


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
