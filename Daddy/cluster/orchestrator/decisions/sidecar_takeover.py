"""Pure. Decides whether a running job makes the controller's next pass, because no other will."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from Daddy.cluster.orchestrator.controller_records import Mode


class ControllerState(str, Enum):
    """The controller's lease, as seen from a job."""

    ALIVE = "a controller lives"
    SILENT = "the controller's beat stands still"
    DEAD = "the controller's process is gone"
    ENDED = "no controller holds the run"


@dataclass(frozen=True, slots=True)
class JobView:
    """The view of a job. Times are seconds on its own clock."""

    mode: Mode
    daemon: bool
    """Whether a controller is meant to live on a login node."""
    controller: ControllerState
    unchanged_s: float
    """Time since ``controller`` changed, or the beat stopped."""
    holds_slot: bool
    """Whether our job still holds its slot."""
    lower_job_alive: bool
    """Whether a living job holds a lower slot."""
    next_pass_in_s: float
    """Until our own next pass is due; 0 where we made none yet."""
    slot_changed: bool
    """Whether a slot changed hands since our last pass."""


def should_make_pass(sight: JobView, silence_s: float, grace_s: float) -> tuple[bool, str]:
    """Whether the job makes a pass now, and the reason.

    A beat that stands still for ``silence_s`` is a dead controller's; where one is meant to live, a
    controller that left gets ``grace_s`` to come back.
    """
    refusal = _why_not(sight, silence_s, grace_s)
    if refusal:
        return False, refusal
    if sight.next_pass_in_s > 0 and not sight.slot_changed:
        return False, f"the next pass is due in {sight.next_pass_in_s:.0f} s"
    return True, sight.controller.value


def _why_not(sight: JobView, silence_s: float, grace_s: float) -> str:
    if sight.mode is not Mode.RUN:
        return f"the run is to {sight.mode.value}"
    if not sight.holds_slot:
        return "this job holds no slot any more"
    if sight.controller is ControllerState.ALIVE:
        return ControllerState.ALIVE.value
    if sight.lower_job_alive:
        return "a job in a lower slot does it"
    patience = silence_s if sight.controller is ControllerState.SILENT else grace_s * sight.daemon
    if sight.unchanged_s < patience:
        return f"{sight.controller.value}, for {sight.unchanged_s:.0f} of {patience:.0f} s"
    return ""
