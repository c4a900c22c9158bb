"""The loop outlives what goes wrong around it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from Daddy.cluster.orchestrator.companions import Companions
from Daddy.cluster.orchestrator.control_parameters import Policy
from Daddy.cluster.orchestrator.controller import Controller, Parts
from Daddy.cluster.orchestrator.history import Entry
from Daddy.cluster.orchestrator.intent import Intent, read_intent, write_intent
from Daddy.cluster.orchestrator.records import JobState, Mode, QueueJob, Snapshot
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.events import read_events
from Daddy.core.files import read_json
from Daddy.core.lease import Lease
from tests.cluster.conftest import until
from tests.cluster.test_effects import Hands

CLOCK = SystemClock()


def make_parts(hands: Hands, clock: Clock = CLOCK) -> Parts:
    run = hands.run
    return Parts(
        run=run,
        lease=Lease(run.controller_lease, 1),
        scheduler=hands.site,
        ledger=hands.ledger,
        effects=hands.effects,
        rules=lambda _release: Policy(pass_s=0.05, hot_pass_s=0.05, quiet_pass_s=0.05),
        companions=Companions({}, run.logs, {}, clock),
        steps=lambda: (0, 0),
        clock=clock,
        look_s=0.02,
    )


def test_a_disk_that_takes_nothing_for_a_while_costs_passes_and_not_the_controller(
    tmp_path: Path,
) -> None:
    hands, stop = Hands(tmp_path), threading.Event()
    run = hands.run
    write_intent(run, Intent(Mode.RUN, 0, "local", "r", "cartpole"), 0.0)
    beat = run.controller_lease / "beat.json"
    beat.mkdir()  # nothing can be written there, nor below what should be a folder
    run.events.write_text("no folder")
    parts = make_parts(hands)
    loop = threading.Thread(target=Controller(parts).run, args=(stop,))
    loop.start()
    try:
        assert not stop.wait(0.4)
        assert loop.is_alive()
        beat.rmdir()
        run.events.unlink()
        until(run.status.exists)
        assert read_json(run.status)["term"] == 1
    finally:
        stop.set()
        loop.join(10)
    assert not loop.is_alive()


class Busy(Hands):
    """A run with one job, which runs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        token = "0" * 12
        self.ledger.append(Entry("intent", 1.0, token, {"number": 1}))
        self.ledger.append(Entry("submitted", 1.0, token, {"job_id": 17}))
        job = QueueJob(17, token, JobState.RUNNING, "RUNNING")
        self.site.snapshot = lambda: Snapshot(CLOCK.now(), (job,))  # type: ignore[method-assign]


def test_an_intent_that_cannot_be_found_is_no_wish_to_cancel_everything(tmp_path: Path) -> None:
    hands = Busy(tmp_path)
    controller, stop = Controller(make_parts(hands)), threading.Event()
    loop = threading.Thread(target=controller.run, args=(stop,))
    loop.start()
    try:
        until(lambda: any(e["event"] == "error" for e in read_events(hands.run.events)))
        assert hands.site.refs == []
        assert loop.is_alive()
    finally:
        stop.set()
        loop.join(10)


def test_a_start_that_is_said_while_the_run_ends_is_not_lost(tmp_path: Path) -> None:
    hands = Hands(tmp_path)
    done = Intent(Mode.DONE, 4, "local", "r", "cartpole")
    write_intent(hands.run, done, 0.0)

    def listing() -> Snapshot:
        write_intent(hands.run, replace(done, mode=Mode.RUN), 1.0)
        return Snapshot(CLOCK.now(), ())

    hands.site.snapshot = listing  # type: ignore[method-assign]
    final, _ = Controller(make_parts(hands)).once()
    intent = read_intent(hands.run)
    assert intent is not None
    assert (final, intent.mode) == (None, Mode.RUN)


def test_a_start_said_on_a_host_whose_clock_is_behind_forgives_failures_too(tmp_path: Path) -> None:
    hands = Hands(tmp_path)
    wanted = Intent(Mode.RUN, 0, "local", "r", "cartpole", started_ts=CLOCK.now())
    for said in (wanted, replace(wanted, started_ts=wanted.started_ts - 600.0)):
        write_intent(hands.run, said, 0.0)
        before = CLOCK.now()
        for _ in range(2):
            Controller(make_parts(hands)).once()
        assert hands.ledger.view.started_ts >= before
    assert hands.kinds().count("start") == 2


def test_a_wall_clock_that_is_set_back_does_not_put_the_controller_to_sleep(tmp_path: Path) -> None:
    hands, stop = Hands(tmp_path), threading.Event()
    write_intent(hands.run, Intent(Mode.RUN, 0, "local", "r", "cartpole"), 0.0)
    clock = SystemClock()
    controller = Controller(make_parts(hands, clock))
    wake_at = clock.now() + 0.2
    loop = threading.Thread(target=controller._idle, args=(stop, wake_at))
    loop.start()
    clock.now = lambda: wake_at - 3600.0  # type: ignore[method-assign]
    loop.join(5)
    stop.set()
    assert not loop.is_alive()
