"""Builds attempts and plan inputs for the tests of decisions."""

from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import (
    Attempt,
    DesiredRun,
    JobOutcome,
    JobState,
    Ledger,
    Mode,
    Phase,
    QueueJob,
    Snapshot,
)
from Daddy.cluster.orchestrator.decisions.plan_input import PlanInput, gather_plan_input
from tests.cluster.world import attempt_of

NOW = 1_000_000.0


def waits(number: int, **facts) -> Attempt:
    """Build an attempt whose job waits in the queue."""
    basics = {"token": f"{number:012x}", "number": number, "phase": Phase.SUBMITTED}
    return attempt_of(**{**basics, "intended_ts": NOW - 900, "job_id": 100 + number, **facts})


def trains(number: int, slot: int, **facts) -> Attempt:
    """Build an attempt whose job holds a slot and has written a checkpoint."""
    basics = {"started_ts": NOW - 600, "claimed_ts": NOW - 590, "progressed_ts": NOW - 500}
    place = {"phase": Phase.RUNNING, "slot": slot, "term": 1, "node": f"n{number}"}
    return waits(number, **{**place, **basics, **facts})


def ended(number: int, outcome: JobOutcome, ago: float = 60.0, **facts) -> Attempt:
    """Build an attempt whose job ended without progress."""
    basics = {"started_ts": NOW - ago - 20, "ended_ts": NOW - ago, "node": f"n{number}"}
    return waits(number, **{"phase": Phase.ENDED, "outcome": outcome, **basics, **facts})


def queue(known: Ledger, **facts) -> Snapshot:
    """Build the listing that matches the ledger."""
    rows = [
        QueueJob(
            attempt.job_id or 0,
            attempt.token,
            JobState.RUNNING if attempt.phase is Phase.RUNNING else JobState.PENDING,
            attempt.phase.name,
        )
        for attempt in known.live
    ]
    return Snapshot(NOW - 1, **{"jobs": tuple(rows), **facts})


def given(
    known: Ledger,
    seen: Snapshot | None = None,
    policy: ControllerPolicy | None = None,
    now: float = NOW,
) -> PlanInput:
    """Build the input of decisions for a run of four slots."""
    return gather_plan_input(
        DesiredRun(Mode.RUN, 4), known, seen or queue(known), policy or ControllerPolicy(), now
    )
