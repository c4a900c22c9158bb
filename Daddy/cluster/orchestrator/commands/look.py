"""A look of our own at the queue, where the controller's summary is too old to go by.

Imported only then: what a decision needs is half of what ``status`` would load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from Daddy.cluster.orchestrator.control_parameters import Policy
from Daddy.cluster.orchestrator.executors import make_scheduler
from Daddy.cluster.orchestrator.history import fold
from Daddy.cluster.orchestrator.intent import Intent
from Daddy.cluster.orchestrator.plan import plan
from Daddy.cluster.orchestrator.reconcile import reconcile
from Daddy.cluster.orchestrator.records import Ledger, Observation, SlotView, Snapshot
from Daddy.cluster.orchestrator.slots import read_slots
from Daddy.cluster.orchestrator.summary import summarise
from Daddy.core.clock import Clock
from Daddy.core.paths import RunPaths
from Daddy.core.settings import Config

_PATIENCE_S = 0.8
"""For a silent scheduler: a person waits at most two seconds in all."""
_ASK_AGAIN_S = 30.0
"""Between two looks of our own at the queue, while watching."""


class Queue(Protocol):
    """What can be looked at."""

    def snapshot(self) -> Observation:
        """Every job of the run in one look."""


@dataclass(slots=True)
class Sparing:
    """A queue that is not asked again for a while."""

    queue: Queue
    clock: Clock
    seen: Observation | None = None
    asked: float = 0.0

    def snapshot(self) -> Observation:
        now = self.clock.monotonic()
        if self.seen is None or now - self.asked >= _ASK_AGAIN_S:
            self.seen, self.asked = self.queue.snapshot(), now
        return self.seen


def sparing_queue(executor: str, config: Config, run: RunPaths, clock: Clock) -> Sparing:
    """The run's queue for a person who waits: asked with little patience, and not too often."""
    return Sparing(make_scheduler(executor, config, run, clock, _PATIENCE_S), clock)


def look(
    run: RunPaths,
    queue: Queue,
    policy: Policy,
    clock: Clock,
    intent: Intent | None,
    ledger: Ledger,
) -> dict[str, Any]:
    """What a controller would write now, written nowhere."""
    snapshot = queue.snapshot()
    slots = read_slots(run, intent.slots if intent is not None else policy.max_running)
    now = clock.now()
    if isinstance(snapshot, Snapshot):
        ledger = _with_seen(ledger, snapshot, slots, policy, now)
    desired = intent.desired if intent is not None else None
    decided = plan(desired, ledger, snapshot, policy, now) if desired is not None else None
    return summarise(intent, ledger, snapshot, slots, decided, policy, now)


def _with_seen(
    ledger: Ledger, snapshot: Snapshot, slots: Sequence[SlotView], policy: Policy, now: float
) -> Ledger:
    """The ledger after this look; adopted jobs are looked at once more, as the next pass would."""
    seen = reconcile(ledger, snapshot, slots, policy, now)
    ledger = fold(ledger, *seen)
    if any(entry.kind == "intent" for entry in seen):
        ledger = fold(ledger, *reconcile(ledger, snapshot, slots, policy, now))
    return ledger
