"""Pure: one moment as every question of ``plan`` sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from Daddy.cluster.orchestrator.control_parameters import Policy
from Daddy.cluster.orchestrator.decisions import stops
from Daddy.cluster.orchestrator.decisions.breaker import Hold, holds, tries_left
from Daddy.cluster.orchestrator.decisions.rollout import Rollout, rollout
from Daddy.cluster.orchestrator.decisions.stops import Stop
from Daddy.cluster.orchestrator.records import Attempt, Desired, Ledger, Snapshot


@dataclass(frozen=True, slots=True)
class View:
    """What is wanted, known and seen, and what follows from it for everybody."""

    desired: Desired
    ledger: Ledger
    snapshot: Snapshot
    policy: Policy
    now: float
    rollout: Rollout
    holds: tuple[Hold, ...]
    training: tuple[Attempt, ...]
    waiting: tuple[Attempt, ...]
    """Attempts without a slot: queued, starting, or not known to exist yet."""
    fill: int
    """Slots that are empty and may be filled; one at a time while the breaker is open."""
    stop: Stop | None
    """Why nothing may be submitted at all."""

    @property
    def steady(self) -> tuple[Attempt, ...]:
        """Jobs that train and are known to get somewhere: only these get successors."""
        proven = self.ledger.proven
        return tuple(
            one for one in self.training if one.progressed_ts is not None or one.release in proven
        )


def look(desired: Desired, ledger: Ledger, snapshot: Snapshot, policy: Policy, now: float) -> View:
    """The view of this moment."""
    chosen = rollout(desired, ledger)
    found = holds(ledger, policy, now, chosen.given_up)
    kept = tuple(one for one in found if one.slot is None or one.slot < desired.slots)
    training, waiting = _training_and_waiting(ledger)
    tries = tries_left(ledger, policy, now, chosen.given_up)
    return View(
        desired,
        ledger,
        snapshot,
        policy,
        now,
        chosen,
        kept,
        training,
        waiting,
        _fill(desired.slots, kept, training, tries, now),
        stops.find(ledger, snapshot, policy, now),
    )


def _fill(
    slots: int, kept: Sequence[Hold], training: Sequence[Attempt], tries: int | None, now: float
) -> int:
    """`tries`: while nobody gets anywhere, how many may still fail before the breaker opens."""
    fleet = next((one for one in kept if one.slot is None), None)
    if fleet is not None and fleet.until > now:
        return 0
    taken = {one.slot for one in training}
    held = sum(1 for one in kept if one.slot is not None and one.slot not in taken)
    empty = max(0, slots - len(training) - held)
    left = 1 if fleet is not None else tries
    return empty if left is None else min(empty, max(0, left - len(training)))


def _training_and_waiting(ledger: Ledger) -> tuple[tuple[Attempt, ...], tuple[Attempt, ...]]:
    """In one pass: a fleet of thousands does not stay in the processor's cache."""
    training, waiting = list[Attempt](), list[Attempt]()
    for one in ledger.live:
        if one.slot is None:
            waiting.append(one)
        elif one.left_ts is None:
            training.append(one)
    return tuple(training), tuple(waiting)
