"""The loop: look, write down, decide, act. All it knows is on disk, so it may die anywhere.

Between passes it looks at a few small files only (the intent and the slots' leases): a goodbye
leads to the next pass at once, without asking the scheduler meanwhile.
"""

from __future__ import annotations

import contextlib
import threading
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from Daddy.cluster.orchestrator.actions import Plan
from Daddy.cluster.orchestrator.companions import Companions
from Daddy.cluster.orchestrator.control_parameters import Policy
from Daddy.cluster.orchestrator.effects import Effects
from Daddy.cluster.orchestrator.glance import Glance
from Daddy.cluster.orchestrator.history import Entry
from Daddy.cluster.orchestrator.inquest import Inquest
from Daddy.cluster.orchestrator.intent import read_intent, write_intent
from Daddy.cluster.orchestrator.ledger import LedgerFile
from Daddy.cluster.orchestrator.plan import plan
from Daddy.cluster.orchestrator.reconcile import reconcile
from Daddy.cluster.orchestrator.records import (
    Desired,
    JobState,
    Mode,
    Observation,
    Site,
    SlotView,
    Snapshot,
    Unknown,
)
from Daddy.cluster.orchestrator.scheduler import Scheduler
from Daddy.cluster.orchestrator.slots import Silence, read_slots
from Daddy.cluster.orchestrator.summary import summarise
from Daddy.core.clock import Clock
from Daddy.core.errors import ControllerAliveError, FileError
from Daddy.core.files import write_json
from Daddy.core.lease import Lease
from Daddy.core.paths import RunPaths

_BEAT_S = 10.0
"""Seconds between two proofs of life of the controller's lease."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a controller is made of."""

    run: RunPaths
    lease: Lease
    scheduler: Scheduler
    ledger: LedgerFile
    effects: Effects
    rules: Callable[[str], Policy]
    """Release → the rules that its configuration sets."""
    companions: Companions
    steps: Callable[[], tuple[int, int]]
    """(fleet steps so far, steps that end the run or 0)."""
    clock: Clock
    look_s: float
    """Seconds between two looks at the small files."""
    silence: Silence | None = None
    """How long beats have stood still, where somebody watched them before us."""


class Controller:
    """Keeps one run as it is wanted, until it is stopped or done."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._policy = parts.rules("")
        self._silence = parts.silence or Silence(parts.clock)
        self._glance = Glance(parts.run)
        self._inquest = Inquest(parts.scheduler)
        self._beaten = float("-inf")
        self._known: Snapshot | None = None
        self._surveyed = parts.silence is not None  # others make passes too: asked once is enough

    def run(self, stop: threading.Event) -> Mode | None:
        """Passes until the run is over (its final mode) or ``stop`` is set (None: jobs go on)."""
        parts = self._parts
        try:
            while not stop.is_set():
                final, wake_at = self._guarded_pass()
                if final is not None:
                    return final
                self._guarded_idle(stop, wake_at)
            return None
        finally:
            parts.companions.end()

    def _guarded_pass(self) -> tuple[Mode | None, float]:
        """One pass; a bug or a full disk costs this pass and is told, the fleet is left alone."""
        try:
            return self.once()
        except ControllerAliveError:
            raise
        except Exception as error:  # noqa: BLE001 - a place where the loop must survive
            self._tell_failure(f"a pass failed: {error!r}")
            return None, self._parts.clock.now() + self._policy.pass_s

    def _guarded_idle(self, stop: threading.Event, wake_at: float) -> None:
        """Wait; what fails meanwhile (a beat that cannot be written) ends the waiting, not us."""
        try:
            self._idle(stop, wake_at)
        except ControllerAliveError:
            raise
        except Exception as error:  # noqa: BLE001 - a place where the loop must survive
            self._tell_failure(f"a look failed: {error!r}")
            self._parts.clock.wait(stop, self._policy.hot_pass_s)

    def _tell_failure(self, text: str) -> None:
        """In the log and as an event, where a full disk still takes them."""
        with contextlib.suppress(OSError):
            traceback.print_exc()
        with contextlib.suppress(OSError):
            self._parts.effects.tell("error", text=text)

    def once(self) -> tuple[Mode | None, float]:
        """Look, write down, decide, act. Returns the final mode, if any, and when to come again."""
        parts = self._parts
        self._beat()
        desired = self._desired()
        self._policy = policy = parts.rules(desired.release)
        self._survey()
        snapshot = parts.scheduler.snapshot()
        self._excuse_suspended(snapshot)
        slots = read_slots(parts.run, max(desired.slots, policy.max_running), self._silence)
        now = parts.clock.now()
        if isinstance(snapshot, Snapshot):
            snapshot = self._inquest.with_the_dead(parts.ledger.view, snapshot)
            for said in snapshot.warnings:
                parts.effects.tell("error", text=said)
            parts.effects.record(reconcile(parts.ledger.view, snapshot, slots, policy, now))
            parts.effects.record(self._inquest.cancellers(parts.ledger.view, now))
        decided = plan(desired, parts.ledger.view, snapshot, policy, now)
        parts.effects.order(decided.orders)
        final = parts.effects.apply(decided.actions, _others(snapshot))
        if final is not None and not self._conclude(final, desired):
            final = None
        self._summarise(snapshot, slots, decided, now)
        return final, decided.wake_at

    def _excuse_suspended(self, snapshot: Observation) -> None:
        """Who cannot run cannot beat: silence counts from when the scheduler lets it go on."""
        if isinstance(snapshot, Snapshot):
            tokens = {job.token for job in snapshot.jobs if job.word.startswith("SUSPENDED")}
            held = (one for one in self._parts.ledger.view.live if one.token in tokens)
            self._silence.forget(one.slot for one in held if one.slot is not None)

    def _survey(self) -> None:
        """Once in a term: what the site allows, as far as it can be read."""
        if self._surveyed:
            return
        self._surveyed = True
        site, source = self._parts.scheduler.site()
        known, nothing = asdict(self._parts.ledger.view.site), asdict(Site())
        read = {name: value for name, value in asdict(site).items() if value != nothing[name]}
        if any(known[name] != value for name, value in read.items()):
            self._parts.effects.note("learnt", "", site=read, why=source)

    def _desired(self) -> Desired:
        """The intent; a run that has reached its steps is done, and that is written down first."""
        parts = self._parts
        intent = read_intent(parts.run)
        if intent is None:  # it was written before we began: not seeing it is no wish to stop
            raise FileError(f"{parts.run.intent} is gone", "say start or stop: the jobs go on")
        done, total = parts.steps()
        if intent.started_ts != parts.ledger.view.asked_ts:  # no order: another clock
            facts = {"release": intent.release, "asked": intent.started_ts}
            parts.effects.record([Entry("start", parts.clock.now(), "", facts)])
        if intent.mode is Mode.RUN and 0 < total <= done:
            reason = f"{done:,} of {total:,} steps: raise training.total_steps and start to go on"
            intent = replace(intent, mode=Mode.DONE, reason=reason)
            write_intent(parts.run, intent, parts.clock.now())
            parts.effects.tell("state", state="total_steps", text=f"the run is done: {reason}")
        return intent.desired

    def _conclude(self, final: Mode, desired: Desired) -> bool:
        """Write the end down; False where the person has asked for something else meanwhile."""
        intent = read_intent(self._parts.run)
        if intent is not None:
            if intent.desired != desired:
                return False
            intent = replace(intent, mode=final)
            write_intent(self._parts.run, intent, self._parts.clock.now())
        self._parts.effects.tell("state", state="concluded", text=f"the run is {final.value}")
        return True

    def _summarise(
        self, snapshot: Observation, slots: tuple[SlotView, ...], decided: Plan, now: float
    ) -> None:
        parts = self._parts
        if isinstance(snapshot, Snapshot):
            self._known = snapshot
        intent = read_intent(parts.run)
        done, total = parts.steps()
        last = snapshot if self._known is None else self._known
        summary = summarise(intent, parts.ledger.view, last, slots, decided, self._policy, now)
        if isinstance(snapshot, Unknown):
            summary["queue"] = {**summary["queue"], "known": False, "why": snapshot.why}
        write_json(
            parts.run.status,
            {
                **summary,
                "term": parts.lease.term,
                "steps": {"done": done, "total": total},
                "companions": parts.companions.alive(),
            },
        )

    def _beat(self) -> None:
        now = self._parts.clock.monotonic()
        if now - self._beaten >= _BEAT_S:
            self._parts.effects.check_term()
            self._parts.lease.beat()
            self._beaten = now

    def _idle(self, stop: threading.Event, wake_at: float) -> None:
        """Wait until ``wake_at``, or until a small file says that something happened."""
        parts = self._parts
        before = self._glance(self._policy.max_running)
        most = max(self._policy.pass_s, self._policy.quiet_pass_s)
        longest = min(most, wake_at - parts.clock.now())  # wall clocks are set back
        until = parts.clock.monotonic() + longest
        while (rest := until - parts.clock.monotonic()) > 0:
            if parts.clock.wait(stop, min(parts.look_s, rest)):
                return
            self._beat()
            parts.companions.tend()
            if self._glance(self._policy.max_running) != before:
                return


def _others(snapshot: Observation) -> int:
    """The person's own jobs beside ours."""
    jobs = snapshot.others if isinstance(snapshot, Snapshot) else ()
    return sum(1 for job in jobs if job.state is not JobState.ENDED)
