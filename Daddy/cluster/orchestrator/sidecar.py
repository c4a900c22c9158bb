"""A small process beside each learner: makes the controller's passes while no controller lives.

Started by the launcher, ends with the job. It watches the controller's lease on its own clock; a
pass is a short program of its own (``single_pass``), under the controller's lease and fenced like
any other, so several that try at once do no harm. Light: no pydantic, no torch, two small files
every other second.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Daddy.cluster.orchestrator.control_files import Probe, read_intent, read_probe, write_probe
from Daddy.cluster.orchestrator.controller_records import Intent
from Daddy.cluster.orchestrator.decisions.sidecar_takeover import (
    ControllerState,
    JobView,
    should_make_pass,
)
from Daddy.cluster.orchestrator.slot_status import HeartbeatSilence
from Daddy.core.atomic_files import read_json
from Daddy.core.child_process import run_command as run_program
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import DaddyError, ExitCode, run_entry
from Daddy.core.event_log import EventWriter
from Daddy.core.lease import LeaseView, is_holder_alive, read_lease
from Daddy.core.log_setup import log_to
from Daddy.core.machine_info import die_with_parent
from Daddy.core.run_paths import RunPaths

SILENCE_S = 90.0
"""A controller's beat moves every ten seconds."""
GRACE_S = 90.0
"""Time that an ended controller gets to come back; on one machine three passes are enough."""
_SLOT_SILENCE_S = 60.0
_PASS_TIMEOUT_S = 300.0
_RETRY_S = 30.0
_BLIND_S = 30.0
"""The most that counts of a time without looks: a disk that hangs, or our own pass."""
_BOOT_S = 120.0
"""The longest that the processor is left to the learner beside us while it loads."""
_NEWS_S = 5.0
"""Shortest time between two of our passes."""
_PROGRAM = "Daddy.cluster.orchestrator.single_pass"
_CONTROLLER = -1
"""The place of the controller's lease among the silences."""

Leases = dict[int, LeaseView]
"""Slot → its newest lease."""


@dataclass
class FailoverWatch:
    """One job's view of the control of its run. ``facts``: the configuration of its release."""

    run: RunPaths
    release: Path
    slot: int
    term: int
    clock: Clock
    facts: dict[str, Any]

    def __post_init__(self) -> None:
        self.silence = HeartbeatSilence(self.clock, _BLIND_S)
        self.local = self.facts["controller"]["executor"] == "local"
        self._grace_s = min(GRACE_S, 3.0 * float(self.facts["controller"]["poll_seconds"]))
        self._held: tuple[object, ...] = ()
        """Holders of the slots at our last pass."""
        self._begun = self.clock.monotonic()
        self._due = 0.0
        self._passed = float("-inf")
        self._helping = False

    def check(self) -> str:
        """One look, and a pass if it is ours to make; why (not)."""
        intent = read_intent(self.run)
        if intent is None:
            return "nothing was ever asked for"
        slots = range(max(intent.slots, self.slot + 1))
        found = {slot: read_lease(self.run.slot(slot).lease) for slot in slots}
        leases = {slot: view for slot, view in found.items() if view is not None}
        sight = self._sight(intent, leases)
        ours, reason = should_make_pass(sight, SILENCE_S, self._grace_s)
        if sight.controller is ControllerState.ALIVE:
            self._helping, self._due = False, 0.0
        if ours and self._may_submit(intent):
            self._held = _holders(leases)
            self._pass(
                intent, reason, ("--watched",) * (sight.controller is ControllerState.SILENT)
            )
        return reason

    def _sight(self, intent: Intent, leases: Leases) -> JobView:
        now, own = self.clock.monotonic(), leases.get(self.slot)
        still = {slot: self._still(slot, view) for slot, view in leases.items()}
        loads = own is not None and own.beat.get("stage") in ("claimed", "loading")
        loads = loads and now - self._begun < _BOOT_S
        controller, since = self._helm()
        return JobView(
            mode=intent.mode,
            daemon=intent.daemon,
            controller=controller,
            unchanged_s=since,
            holds_slot=own is not None and own.term == self.term and own.ended is None,
            lower_job_alive=any(
                view.ended is None
                and still[slot] < _SLOT_SILENCE_S
                and is_holder_alive(view.holder) is not False
                for slot, view in leases.items()
                if slot < self.slot
            ),
            next_pass_in_s=_BOOT_S if loads else max(0.0, self._due - now),
            slot_changed=not loads
            and _holders(leases) != self._held
            and now - self._passed >= _NEWS_S,
        )

    def _still(self, place: int, view: LeaseView) -> float:
        return self.silence.measure(place, view.term, view.beat.get("counter"))

    def _helm(self) -> tuple[ControllerState, float]:
        """The state of the controller's lease, and for how long by our own clock."""
        view = read_lease(self.run.controller_lease)
        if view is None or view.ended is not None:
            controller = ControllerState.ENDED
        elif is_holder_alive(view.holder) is False:
            controller = ControllerState.DEAD
        else:
            still = self._still(_CONTROLLER, view)
            return (ControllerState.SILENT if still >= SILENCE_S else ControllerState.ALIVE), still
        return controller, self.silence.measure(_CONTROLLER, 0, controller.value)

    def _may_submit(self, intent: Intent) -> bool:
        """The answer since the last ``start``; found out now where nobody has tried."""
        known = read_probe(self.run)
        if known is None or known.ts < intent.started_ts:
            if self.local:  # at once: short jobs have no time for a program
                why, by = "the queue of this machine", f"slot {self.slot}"
                write_probe(self.run, Probe(True, why, by, self.clock.now()))
            else:
                self._program("--probe")
            known = read_probe(self.run)
        if known is None or not known.may_submit:
            self._due = self.clock.monotonic() + _RETRY_S
        return known is not None and known.may_submit

    def _pass(self, intent: Intent, reason: str, watched: tuple[str, ...]) -> None:
        if not self._helping:
            self._helping = True
            self._tell("state", f"{reason}: slot {self.slot}'s job makes the passes meanwhile")
        durations = self.silence.export_durations().items()
        silence = {slot: duration for slot, duration in durations if int(slot) >= 0}
        told = self._program(*watched, "--silence", json.dumps(silence), release=intent.release)
        self._passed = self.clock.monotonic()
        wait_s = _RETRY_S if told is None else max(float(told["wake_in_s"]), _NEWS_S)
        self._due = self._passed + wait_s

    def _program(self, *options: str, release: str = "") -> dict[str, Any] | None:
        """The program's answer; None where it failed, which is in the log."""
        named = self.run.release(release).root
        by = named if release and named.is_dir() else self.release
        argv = [sys.executable, "-m", _PROGRAM, "--release", str(by), *options]
        env = {**os.environ, "PYTHONPATH": str(by)}
        try:
            done = run_program(argv, _PASS_TIMEOUT_S, env=env, cwd=self.run.root)
            if done.returncode == ExitCode.DONE:
                return dict(json.loads(done.stdout.splitlines()[-1]))
            if done.returncode != ExitCode.CONTROLLER_ALIVE:
                self._tell("error", f"a pass failed: {done.stderr.strip()[-300:]}")
        except (DaddyError, OSError, ValueError, IndexError) as error:
            self._tell("error", f"a pass failed: {error!r}")
        return None

    def _tell(self, event: str, text: str) -> None:
        with contextlib.suppress(OSError):
            name, workload = self.facts["run_name"], self.facts["training"]["workload"]
            ident = f"failover-slot-{self.slot}"
            writer = EventWriter(self.run.events, name, workload, "controller", ident, self.clock)
            writer.write(event, 0, {"state": "failover", "text": text})


def _holders(leases: Leases) -> tuple[object, ...]:
    return tuple((slot, view.term, view.ended) for slot, view in sorted(leases.items()))


def main(argv: Sequence[str] | None = None) -> int:
    """FailoverWatch for as long as the job lives."""
    parser = argparse.ArgumentParser(prog="sidecar", description="Failover beside a learner.")
    parser.add_argument("--run", type=Path, required=True, help="the run directory")
    parser.add_argument("--release", type=Path, required=True, help="the release the job runs")
    parser.add_argument("--slot", type=int, required=True, help="the job's slot")
    parser.add_argument("--term", type=int, required=True, help="the term it holds the slot in")
    parser.add_argument("--parent", type=int, required=True, help="pid of the job's program")
    args = parser.parse_args(argv)
    die_with_parent(args.parent)
    log_to()
    facts, clock = read_json(args.release / "config.json"), SystemClock()
    watch = FailoverWatch(RunPaths(args.run), args.release, args.slot, args.term, clock, facts)
    look_s, never = 0.5 if watch.local else 2.0, threading.Event()
    while True:
        try:
            watch.check()
        except (DaddyError, OSError, KeyError, TypeError, ValueError) as error:
            logging.getLogger(__name__).warning("the leases cannot be read: %r", error)
            clock.wait(never, _RETRY_S)
        clock.wait(never, look_s)


if __name__ == "__main__":
    sys.exit(run_entry(main))
