"""Entry: a small process beside each learner that makes the passes while no controller runs.

The launcher starts it; it ends with the job. It watches the controller's lease on its own clock.
For a pass it runs the program ``single_pass``, which first claims the controller's lease, so of
several sidecars that try at once one makes the pass. It imports neither pydantic nor torch and
reads two small files every other second.
"""

import contextlib
import json
import logging
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Daddy.cluster.orchestrator.control_files import Probe, read_intent, read_probe, write_probe
from Daddy.cluster.orchestrator.controller_types import DesiredRun
from Daddy.cluster.orchestrator.decisions.controller_failover import (
    GIVEN_UP,
    SILENCE_S,
    WAKE,
    ControllerState,
    JobView,
    blind_seconds,
    limit_wait,
    should_make_pass,
)
from Daddy.cluster.orchestrator.read_slots import HeartbeatSilence
from Daddy.core.arguments import ArgumentParser
from Daddy.core.atomic_files import read_json
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import DaddyError, ExitCode
from Daddy.core.event_log import EventWriter
from Daddy.core.host_and_processes import die_with_parent
from Daddy.core.humanize import parse_duration
from Daddy.core.lease import LeaseView, is_holder_alive, read_lease
from Daddy.core.log_setup import log_to
from Daddy.core.run_paths import RunPaths
from Daddy.core.run_subprocess import run_command as run_program

GRACE_S = 90.0
"""Time that an ended controller gets to come back: at most this, or three of its passes."""
_SLOT_SILENCE_S = 60.0
_PASS_TIMEOUT_S = 300.0
_RETRY_S = 30.0
_MAX_GAP_S = 30.0
"""The most that the time between two reads adds to a silence: the disk may have hung."""
_BOOT_S = 120.0
"""Longest time without passes while the learner loads and needs the processor."""
_MIN_GAP_S = 5.0
"""Shortest time between two passes of one sidecar."""
_PROGRAM = "Daddy.cluster.orchestrator.single_pass"
_CONTROLLER, _STATE = -1, -2
"""Keys of the controller's heartbeat, and of the state of its lease, among the slot numbers."""

Leases = dict[int, LeaseView]
"""Slot → its newest lease."""


@dataclass
class FailoverWatch:
    """Watches the controller's lease from one job; ``facts``: its release's configuration."""

    run: RunPaths
    release: Path
    slot: int
    term: int
    clock: Clock
    facts: dict[str, Any]

    def __post_init__(self) -> None:
        self.silence = HeartbeatSilence(self.clock, _MAX_GAP_S)
        self.local = self.facts["controller"]["executor"] == "local"
        self._job_s = _job_seconds(self.facts)
        self._grace_s = self._wait(min(GRACE_S, 3.0 * self.facts["controller"]["poll_seconds"]))
        self._last_holders: tuple[object, ...] = ()
        """Holders of the slots at our last pass."""
        self._started = self.clock.monotonic()
        self._due = 0.0
        self._last_pass = float("-inf")
        self._newest_pass, self._own_pass = (0, 0.0), -1
        """(Term, seconds to the next) of the newest pass that succeeded; term of our last one."""
        self._announced = False

    def check_leases(self) -> str:
        """Read the leases and make a pass if one is due; return the reason for or against it."""
        intent = read_intent(self.run)
        if intent is None:
            return "no start was ever requested"
        slots = range(max(intent.slots, self.slot + 1))
        views = {slot: read_lease(self.run.slot(slot).lease) for slot in slots}
        leases = {slot: view for slot, view in views.items() if view is not None}
        view = self._job_view(intent, leases)
        ours, reason = should_make_pass(view, self._grace_s, self._job_s)
        if view.controller is ControllerState.ALIVE:
            self._announced, self._due, self._own_pass = False, 0.0, -1
        if ours and self._may_submit(intent):
            self._last_holders = _holders(leases)
            silent = view.controller is ControllerState.SILENT
            self._make_pass(intent, reason, ("--watched",) * silent)
        return reason

    def _job_view(self, intent: DesiredRun, leases: Leases) -> JobView:
        now, own = self.clock.monotonic(), leases.get(self.slot)
        still = {slot: self._still(slot, view) for slot, view in leases.items()}
        loads = own is not None and own.beat.get("stage") in ("claimed", "loading")
        boot_s = self._wait(_BOOT_S)
        loads = loads and now - self._started < boot_s
        changed = _holders(leases) != self._last_holders
        controller, since = self._controller_state()
        return JobView(
            mode=intent.mode,
            daemon=intent.daemon,
            controller=controller,
            unchanged_s=since,
            pass_wait_s=self._newest_pass[1] * (controller is ControllerState.PASSING),
            holds_slot=own is not None and own.term == self.term and own.ended is None,
            lower_jobs=sum(
                view.ended is None
                and still[slot] < self._wait(_SLOT_SILENCE_S)
                and is_holder_alive(view.holder) is not False
                for slot, view in leases.items()
                if slot < self.slot and self._newest_pass[0] != self._own_pass
            ),
            next_pass_in_s=boot_s if loads else max(0.0, self._due - now),
            slot_changed=not loads and changed and now - self._last_pass >= _MIN_GAP_S,
        )

    def _still(self, slot: int, view: LeaseView) -> float:
        return self.silence.measure_silence(slot, view.term, view.beat.get("counter"))

    def _wait(self, seconds: float) -> float:
        return limit_wait(seconds, self._job_s)

    def _controller_state(self) -> tuple[ControllerState, float]:
        """Return the state of the controller's lease, and the seconds since it changed.

        A pass in progress, or one that failed, does not restart these seconds.
        """
        view = read_lease(self.run.controller_lease)
        controller = ControllerState.ENDED
        if view is not None:
            controller, silent_s = self._holder_state(view)
            if controller is ControllerState.SILENT:
                return controller, silent_s
        if controller is ControllerState.BUSY:
            return controller, 0.0
        mark = f"{controller.value}, pass {self._newest_pass[0]}"
        return controller, self.silence.measure_silence(_STATE, 0, mark)

    def _holder_state(self, view: LeaseView) -> tuple[ControllerState, float]:
        """Return the state of a lease's holder, and the seconds since it became silent."""
        passing, alive = bool(view.holder.get("passing")), is_holder_alive(view.holder)
        if view.ended == GIVEN_UP:
            return ControllerState.BLIND, 0.0
        if view.ended is not None:
            if passing and WAKE in view.beat:
                self._newest_pass = view.term, self._wait(float(view.beat[WAKE]))
            return ControllerState.PASSING if passing else ControllerState.ENDED, 0.0
        if alive is False:
            return ControllerState.PASSING if passing else ControllerState.DEAD, 0.0
        still = self._still(_CONTROLLER, view)
        silent_s = still - (SILENCE_S if alive else self._wait(SILENCE_S))
        if silent_s >= 0:
            return ControllerState.SILENT, silent_s
        if passing:
            return ControllerState.BUSY, 0.0
        return ControllerState.BLIND if blind_seconds(view.beat) else ControllerState.ALIVE, 0.0

    def _may_submit(self, intent: DesiredRun) -> bool:
        """Return True if jobs may submit jobs; test that if no job has since the last ``start``."""
        result = read_probe(self.run)
        if result is None or result.ts < intent.started_ts:
            if self.local:  # without the program, which takes longer than a short job
                why, by = "the queue of this machine", f"slot {self.slot}"
                write_probe(self.run, Probe(True, why, by, self.clock.now()))
            else:
                self._run_single_pass("--probe")
            result = read_probe(self.run)
        if result is None or not result.may_submit:
            self._due = self.clock.monotonic() + self._wait(_RETRY_S)
        return result is not None and result.may_submit

    def _make_pass(self, intent: DesiredRun, reason: str, watched: tuple[str, ...]) -> None:
        if not self._announced:
            self._announced = True
            self._log("state", f"{reason}: slot {self.slot}'s job makes the passes meanwhile")
        durations = self.silence.export_durations().items()
        silence = {slot: duration for slot, duration in durations if int(slot) >= 0}
        options = (*watched, "--silence", json.dumps(silence))
        answer = self._run_single_pass(*options, release=intent.release)
        self._last_pass = self.clock.monotonic()
        wait_s = _RETRY_S
        if answer is not None:
            self.silence.import_durations(answer.get("silence", {}))
            self._own_pass, wait_s = int(answer.get("term", -1)), float(answer["wake_in_s"])
        self._due = self._last_pass + max(_MIN_GAP_S, self._wait(wait_s))

    def _run_single_pass(self, *options: str, release: str = "") -> dict[str, Any] | None:
        """Run ``single_pass``; return its JSON, or None if it failed or a controller runs."""
        wanted = self.run.release(release).root
        code = wanted if release and wanted.is_dir() else self.release
        argv = [sys.executable, "-m", _PROGRAM, "--release", str(code), *options]
        env = {**os.environ, "PYTHONPATH": str(code)}
        try:
            # The pass writes to our log itself: it goes on when our job ends before it.
            result = run_program(
                argv, _PASS_TIMEOUT_S, env=env, cwd=self.run.root, show_progress=True
            )
            if result.returncode == ExitCode.DONE:
                return dict(json.loads(result.stdout.splitlines()[-1]))
            if result.returncode not in (ExitCode.CONTROLLER_ALIVE, ExitCode.SCHEDULER):
                ending = f"exit code {result.returncode}: see failover.log"
                self._log("error", f"a pass failed with {ending}")
        except (DaddyError, OSError, ValueError, IndexError) as error:
            self._log("error", f"a pass failed: {error!r}")
        return None

    def _log(self, event: str, text: str) -> None:
        with contextlib.suppress(OSError):
            name, workload = self.facts["run_name"], self.facts["training"]["workload"]
            ident = f"failover-slot-{self.slot}"
            writer = EventWriter(self.run.events, name, workload, "controller", ident, self.clock)
            writer.write(event, 0, {"state": "failover", "text": text})


def _job_seconds(facts: Mapping[str, Any]) -> float:
    """Return the seconds that a job lasts, from its release's configuration."""
    limit_s = parse_duration(facts["slurm"]["time_limit"])
    return float(min(limit_s, facts["training"]["max_runtime_seconds"]))


def _holders(leases: Leases) -> tuple[object, ...]:
    return tuple((slot, view.term, view.ended) for slot, view in sorted(leases.items()))


def main(argv: Sequence[str] | None = None) -> int:
    """Watch the controller's lease until the job's program ends."""
    parser = ArgumentParser(prog="sidecar", description="Controller passes from a job.")
    parser.add_argument("--run", type=Path, required=True, help="the run directory")
    parser.add_argument("--release", type=Path, required=True, help="folder of the job's release")
    parser.add_argument("--slot", type=int, required=True, help="the job's slot")
    parser.add_argument("--term", type=int, required=True, help="the term of the slot's lease")
    parser.add_argument("--parent", type=int, required=True, help="pid of the job's program")
    args = parser.parse_args(argv)
    die_with_parent(args.parent)
    log_to()
    facts, clock = read_json(args.release / "config.json"), SystemClock()
    watch = FailoverWatch(RunPaths(args.run), args.release, args.slot, args.term, clock, facts)
    poll_s, never = 0.5 if watch.local else 2.0, threading.Event()
    while True:
        try:
            watch.check_leases()
        except (DaddyError, OSError, KeyError, TypeError, ValueError) as error:
            logging.getLogger(__name__).warning("the leases cannot be checked: %r", error)
            clock.wait(never, _RETRY_S)
        clock.wait(never, poll_s)


if __name__ == "__main__":
    sys.exit(run_entry(main, private=True))
