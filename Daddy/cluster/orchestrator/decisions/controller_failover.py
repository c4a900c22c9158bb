"""Pure. Decides if a running job makes the controller's next pass while no controller runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from Daddy.cluster.orchestrator.controller_types import Mode


class ControllerState(str, Enum):
    """Names the state of the controller's lease, as read by a job."""

    ALIVE = "a controller lives"
    SILENT = "the controller's heartbeat has stopped"
    DEAD = "the controller's process is gone"
    ENDED = "no controller holds the run"


@dataclass(frozen=True, slots=True)
class JobView:
    """Holds the facts that a job reads before it decides; times in seconds of its own clock."""

    mode: Mode
    daemon: bool
    """True if a controller should run on a login node."""
    controller: ControllerState
    unchanged_s: float
    """Seconds since ``controller`` changed or its heartbeat stopped."""
    holds_slot: bool
    """True while this job holds its slot."""
    lower_job_alive: bool
    """True if a live job holds a lower slot."""
    next_pass_in_s: float
    """Seconds until this job's next pass is due; 0 before its first."""
    slot_changed: bool
    """True if a slot got another holder since this job's last pass."""


def should_make_pass(view: JobView, silence_s: float, grace_s: float) -> tuple[bool, str]:
    """Return (True if the job makes a pass now, the reason for or against the pass).

    A heartbeat that stopped for ``silence_s`` proves a dead controller; a daemon that exited has
    ``grace_s`` to be started again.
    """
    refusal = _refusal(view, silence_s, grace_s)
    if refusal:
        return False, refusal
    if view.next_pass_in_s > 0 and not view.slot_changed:
        return False, f"the next pass is due in {view.next_pass_in_s:.0f} s"
    return True, view.controller.value


def _refusal(view: JobView, silence_s: float, grace_s: float) -> str:
    if view.mode is not Mode.RUN:
        return f"the run's mode is {view.mode.value!r}"
    if not view.holds_slot:
        return "this job holds no slot any more"
    if view.controller is ControllerState.ALIVE:
        return ControllerState.ALIVE.value
    if view.lower_job_alive:
        return "a job in a lower slot does it"
    patience = silence_s if view.controller is ControllerState.SILENT else grace_s * view.daemon
    if view.unchanged_s < patience:
        return f"{view.controller.value}, for {view.unchanged_s:.0f} of {patience:.0f} s"
    return ""
