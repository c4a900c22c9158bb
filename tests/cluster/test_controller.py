"""The loop outlives what goes wrong around it."""

from __future__ import annotations

import threading
from pathlib import Path

from Daddy.cluster.orchestrator.companions import Companions
from Daddy.cluster.orchestrator.controller import Controller, Parts
from Daddy.cluster.orchestrator.intent import Intent, write_intent
from Daddy.cluster.orchestrator.records import Mode, Policy
from Daddy.core.clock import SystemClock
from Daddy.core.files import read_json
from Daddy.core.lease import Lease
from tests.cluster.conftest import until
from tests.cluster.test_effects import Hands


def test_a_disk_that_takes_nothing_for_a_while_costs_passes_and_not_the_controller(
    tmp_path: Path,
) -> None:
    hands, clock, stop = Hands(tmp_path), SystemClock(), threading.Event()
    run, lease = hands.run, Lease(hands.run.controller_lease, 1)
    write_intent(run, Intent(Mode.RUN, 0, "local", "r", "cartpole"), clock.now())
    beat = run.controller_lease / "beat.json"
    beat.mkdir()  # nothing can be written there, nor below what should be a folder
    run.events.write_text("no folder")
    parts = Parts(
        run=run,
        lease=lease,
        scheduler=hands.site,
        ledger=hands.ledger,
        effects=hands.effects,
        policy=Policy(pass_s=0.05, hot_pass_s=0.05),
        companions=Companions({}, run.logs, {}, clock),
        steps=lambda: (0, 0),
        clock=clock,
        look_s=0.02,
    )
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
