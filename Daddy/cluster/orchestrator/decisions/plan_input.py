"""Pure. Gathers the input that all decisions of ``plan`` read."""

from collections.abc import Sequence
from dataclasses import dataclass

from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import Attempt, DesiredRun, Ledger, Snapshot
from Daddy.cluster.orchestrator.decisions.circuit_breaker import Hold, find_holds
from Daddy.cluster.orchestrator.decisions.release_rollout import ReleaseRollout, choose_releases
from Daddy.cluster.orchestrator.decisions.run_pauses import Block, find_block


@dataclass(frozen=True, slots=True)
class PlanInput:
    """Holds intent, ledger, listing and policy, and the results that several decisions need."""

    desired: DesiredRun
    ledger: Ledger
    snapshot: Snapshot
    policy: ControllerPolicy
    now: float
    rollout: ReleaseRollout
    holds: tuple[Hold, ...]
    training: tuple[Attempt, ...]
    waiting: tuple[Attempt, ...]
    """Attempts without a slot: queued, starting, or submitted without an answer."""
    fill: int
    """Number of empty slots that may be filled; at most 1 while the breaker is open."""
    block: Block | None
    """The reason to submit nothing; None without one."""

    @property
    def steady(self) -> tuple[Attempt, ...]:
        """Training jobs that get successors: not stopped, they or their release progressed."""
        proven = self.ledger.proven
        return tuple(
            attempt
            for attempt in self.training
            if attempt.slot not in self.desired.stopped_slots
            and (attempt.progressed_ts is not None or attempt.release in proven)
        )


def gather_plan_input(
    desired: DesiredRun, ledger: Ledger, snapshot: Snapshot, policy: ControllerPolicy, now: float
) -> PlanInput:
    """Return the input of the pass at ``now`` (wall seconds)."""
    chosen = choose_releases(desired, ledger)
    all_holds, tries = find_holds(ledger, policy, now, chosen.given_up)
    slots, stopped = desired.open_slots, desired.stopped_slots
    holds = tuple(hold for hold in all_holds if hold.slot is None or hold.slot in slots)
    training, waiting = list[Attempt](), list[Attempt]()
    for attempt in ledger.live:  # one pass: a fleet of thousands does not stay in the cache
        if attempt.slot is None:
            waiting.append(attempt)
        elif attempt.left_ts is None:
            training.append(attempt)
    kept = [attempt for attempt in training if attempt.slot not in stopped]
    return PlanInput(
        desired,
        ledger,
        snapshot,
        policy,
        now,
        chosen,
        holds,
        tuple(training),
        tuple(waiting),
        _fill(len(slots), holds, kept, tries, now),
        find_block(ledger, snapshot, policy, now),
    )


def _fill(
    slots: int, holds: Sequence[Hold], training: Sequence[Attempt], tries: int | None, now: float
) -> int:
    """Return the number of slots to fill; ``tries``: failures left before the breaker opens."""
    fleet = next((hold for hold in holds if hold.slot is None), None)
    if fleet is not None and fleet.until > now:
        return 0
    taken = {attempt.slot for attempt in training}
    held = sum(1 for hold in holds if hold.slot is not None and hold.slot not in taken)
    empty = max(0, slots - len(training) - held)
    left = 1 if fleet is not None else tries
    return empty if left is None else min(empty, max(0, left - len(training)))
