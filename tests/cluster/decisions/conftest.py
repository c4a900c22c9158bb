"""Attempts and moments in few words."""

from __future__ import annotations

from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_records import (
    Attempt,
    Intent,
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
    """A job in the queue."""
    basics = {"token": f"{number:012x}", "number": number, "phase": Phase.SUBMITTED}
    return attempt_of(**{**basics, "intended_ts": NOW - 900, "job_id": 100 + number, **facts})


def trains(number: int, slot: int, **facts) -> Attempt:
    """A job that holds a slot and has written a checkpoint."""
    basics = {"started_ts": NOW - 600, "claimed_ts": NOW - 590, "progressed_ts": NOW - 500}
    place = {"phase": Phase.RUNNING, "slot": slot, "term": 1, "node": f"n{number}"}
    return waits(number, **{**place, **basics, **facts})


def ended(number: int, outcome: JobOutcome, ago: float = 60.0, **facts) -> Attempt:
    """A job that is over and never made progress."""
    basics = {"started_ts": NOW - ago - 20, "ended_ts": NOW - ago, "node": f"n{number}"}
    return waits(number, **{"phase": Phase.ENDED, "outcome": outcome, **basics, **facts})


def queue(known: Ledger, **facts) -> Snapshot:
    """The listing that fits the ledger."""
    rows = [
        QueueJob(
            one.job_id or 0,
            one.token,
            JobState.RUNNING if one.phase is Phase.RUNNING else JobState.PENDING,
            one.phase.name,
        )
        for one in known.live
    ]
    return Snapshot(NOW - 1, **{"jobs": tuple(rows), **facts})


def given(
    known: Ledger,
    seen: Snapshot | None = None,
    policy: ControllerPolicy | None = None,
    now: float = NOW,
) -> PlanInput:
    """The input of decisions for a run of four slots."""
    return gather_plan_input(
        Intent(Mode.RUN, 4), known, seen or queue(known), policy or ControllerPolicy(), now
    )
