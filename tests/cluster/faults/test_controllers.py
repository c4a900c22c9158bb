"""Tests faults 12 to 17, 31 and 40: controllers that die, meet, sleep, lose state, cannot write."""

import errno
import os
import threading

import pytest

from Daddy.cluster.orchestrator import controller_lease
from Daddy.cluster.orchestrator.controller_types import Mode
from Daddy.cluster.orchestrator.ledger_file import LedgerFile
from Daddy.core.errors import ControllerAliveError
from Daddy.core.lease import Lease, read_lease
from tests.cluster.faults.site import HOUR, Login, Site, VirtualClock


class Killed(BaseException):
    """Simulates SIGKILL."""


def kill_at(login: Login, monkeypatch: pytest.MonkeyPatch, when: str, count: int) -> None:
    """Kill the controller before or after its ``count``-th sbatch."""
    controller = login.start()
    scheduler = controller.applier.scheduler
    submit, calls = scheduler.submit, [0]

    def dying(spec):
        calls[0] += 1
        if calls[0] == count and when == "before":
            raise Killed
        answer = submit(spec)
        if calls[0] == count:
            raise Killed
        return answer

    monkeypatch.setattr(scheduler, "submit", dying)
    with pytest.raises(Killed):
        _passes(login)
    login.controller = None


def _passes(login: Login) -> None:
    for _ in range(50):
        login.one_pass()
        login.site.tick(10.0)


def test_fault_12_controller_killed_between_intent_and_sbatch(
    site: Site, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_at(login, monkeypatch, "before", 2)
    lost = login.kinds("intent")[-1].token
    login.drive(300.0)
    assert [entry.token for entry in login.kinds("rejected")] == [lost], "the intent expires"
    assert site.training == 4
    names = [job["name"] for job in site.jobs()]
    assert len(set(names)) == len(names) == len(login.kinds("intent")) - 1
    assert site.twice() == []


def test_fault_13_controller_killed_between_sbatch_and_commit(
    site: Site, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_at(login, monkeypatch, "after", 2)
    lost = login.kinds("intent")[-1].token
    login.drive(300.0)
    (adopted,) = [entry for entry in login.kinds("submitted") if entry.token == lost]
    assert adopted.data["adopted"] is True
    assert site.training == 4
    assert len(site.jobs()) == len(login.kinds("intent"))
    assert site.twice() == []


class BeatingClock(VirtualClock):
    """Writes the other controller's heartbeats while we wait."""

    def __init__(self, site: Site, other: Lease) -> None:
        super().__init__(site)
        self.other: Lease | None = other

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        if self.other is not None:
            self.other.beat()
        return super().wait(stop, seconds)


def test_fault_14_two_controllers_on_two_login_nodes(site: Site, login: Login) -> None:
    login.settle()
    first = login.controller
    assert first is not None
    clock = BeatingClock(site, first.applier.lease)
    with pytest.raises(ControllerAliveError, match="login"):
        controller_lease.become_controller(site.run, clock)
    clock.other = None  # its host is gone, or it is suspended
    begun = site.true
    second = controller_lease.become_controller(site.run, clock)
    assert 90.0 <= site.true - begun <= 120.0
    before = [site.calls(name) for name in ("sbatch", "scancel")]
    lines = site.run.ledger.read_text()
    site.tick(60.0)
    with pytest.raises(ControllerAliveError):
        first.make_pass()
    assert [site.calls(name) for name in ("sbatch", "scancel")] == before, "no effect"
    assert site.run.ledger.read_text() == lines
    assert second.held()


def test_fault_15_a_lease_holder_suspended_for_five_minutes(
    site: Site, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller sleeps between listing and acting; meanwhile another one takes over."""
    login.drive(30.0)
    old = login.controller
    assert old is not None
    look = old.applier.scheduler.snapshot

    def sleep_after_looking():
        seen = look()
        site.tick(300.0)
        controller_lease.become_controller(site.run, site.clock)
        return seen

    for learner in list(site.learners.values()):  # so that its plan has actions
        site.finish(learner.job_id, "FAILED", 1)
    monkeypatch.setattr(old.applier.scheduler, "snapshot", sleep_after_looking)
    lines, sent = site.run.ledger.read_text(), site.calls("sbatch")
    with pytest.raises(ControllerAliveError):
        old.make_pass()
    assert site.run.ledger.read_text() == lines
    assert site.calls("sbatch") == sent


@pytest.mark.parametrize("damage", ["deleted", "truncated", "summary"])
def test_fault_16_a_state_file_is_deleted_or_truncated(
    site: Site, login: Login, damage: str
) -> None:
    login.settle()
    held = {learner.job_id for learner in site.learners.values()}
    ledger, sent = site.run.ledger, site.calls("sbatch")
    if damage == "deleted":
        ledger.unlink()
    elif damage == "truncated":
        ledger.write_bytes(ledger.read_bytes()[:-30])
    else:
        site.run.status.write_text("{")
    login.start()
    login.drive(600.0)
    assert {learner.job_id for learner in site.learners.values()} == held
    assert site.calls("sbatch") == sent, "everything is found again, nothing is doubled"
    assert len(login.ledger.live) == len(site.jobs("RUNNING", "PENDING"))


def test_fault_16_the_disk_is_full(
    site: Site, login: Login, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    login.settle()
    controller = login.controller
    assert controller is not None
    for learner in list(site.learners.values())[:2]:
        site.finish(learner.job_id, "FAILED", 1)
    write, sent = os.write, [site.calls(name) for name in ("sbatch", "scancel")]

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with controller._surviving("a pass"):
        controller.make_pass()
    monkeypatch.setattr(os, "write", write)
    assert [site.calls(name) for name in ("sbatch", "scancel")] == sent, "jobs are not touched"
    assert "No space left on device" in caplog.text, "it fails loudly"
    login.drive(120.0)
    assert site.training == 4
    assert site.twice() == []


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_fault_17_the_clock_jumps_by_an_hour(site: Site, login: Login, jump: float) -> None:
    login.settle()
    held = {learner.job_id for learner in site.learners.values()}
    before = [site.calls(name) for name in ("sbatch", "scancel")]
    site.clock.skew = jump
    login.drive(900.0)
    assert {learner.job_id for learner in site.learners.values()} == held, "no early drain"
    assert [site.calls(name) for name in ("sbatch", "scancel")] == before
    site.clock.skew = 0.0
    login.drive(900.0)
    assert {learner.job_id for learner in site.learners.values()} == held
    assert [site.calls(name) for name in ("sbatch", "scancel")] == before


def test_fault_31_stop_while_the_controller_is_dead(site: Site, login: Login) -> None:
    login.settle()
    login.controller = None
    site.tick(600.0)
    login.intend(Mode.DRAIN)  # what `stop` writes first, before it becomes the controller itself
    login.start()
    login.drive(200.0)
    assert login.mode is Mode.STOPPED
    assert site.jobs("RUNNING", "PENDING") == []
    assert {entry.data["reason"] for entry in login.kinds("left")} == {"signal SIGUSR1"}
    sent = site.calls("sbatch")
    login.start()  # as a watchdog that ignores the intent would
    login.drive(HOUR)
    assert site.calls("sbatch") == sent, "nothing revives it"


def test_fault_40_the_login_node_reboots(site: Site, login: Login) -> None:
    login.settle()
    held = {learner.job_id for learner in site.learners.values()}
    login.controller = None
    site.tick(240.0)  # the watchdog comes within five minutes
    assert {learner.job_id for learner in site.learners.values()} == held, "the fleet is untouched"
    view = read_lease(site.run.controller_lease)
    assert view is not None
    assert view.ended is None, "the dead controller ended no term"
    login.start()
    sent = site.calls("sbatch")
    login.drive(300.0)
    assert {learner.job_id for learner in site.learners.values()} == held
    assert site.calls("sbatch") == sent
    assert len(LedgerFile(site.run.ledger, 0).view.live) == 8
