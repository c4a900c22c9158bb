"""Pure. Decides if a running job makes the controller's next pass, and if a controller is blind.

The holder of the controller's lease is a daemon on a login node or, for one pass, a job's sidecar.
A holder that ended, or sent no heartbeat for ``SILENCE_S``, is replaced. A holder that sends
heartbeats and cannot read the queue is replaced in this order:

1. From ``BLIND_S`` of failed listings on, its heartbeats say so (``blind_s``).
2. Another process lists the queue: the sidecar of the job in the lowest slot, ``start``,
   ``ensure``, ``stop``, or a daemon that waits (6). Without an answer it claims nothing.
3. With an answer it writes ``answered`` to ``failover.json``, and waits.
4. The holder reads that file every few seconds. It ends its term with the reason ``GIVEN_UP`` when
   ``answered`` has changed since it became blind: that listing is less than a minute old.
5. The other process lists the queue again and claims the next term.
6. The former holder waits as a daemon without the lease, and every 30 s tries to claim it: by the
   same steps, so only if its own listing answers, and if the present holder ended or is blind. It
   ends when the run ends.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from Daddy.cluster.orchestrator.controller_types import Mode

SILENCE_S = 90.0
"""Seconds (nine beats) without a heartbeat after which a holder on another host counts as gone."""
BLIND_S = 60.0
"""Seconds of failed listings after which a holder counts as blind."""
_TURN_S = 45.0
"""Time that a job gives each live job in a lower slot to make a pass that is due."""
WAKE = "wake_in_s"
"""Key, in the last heartbeat of a pass that succeeded, of the seconds until the next one."""
GIVEN_UP = "it cannot read the queue, and another process can"
"""Reason of the end of a blind holder's term."""


class ControllerState(str, Enum):
    """Names the state of the controller's lease, as read by a job."""

    ALIVE = "a controller lives"
    BLIND = "the controller cannot read the queue"
    PASSING = "jobs make the controller's passes"
    BUSY = "another process makes a pass"
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
    """Seconds since ``controller`` changed or a pass of a job succeeded."""
    pass_wait_s: float
    """Seconds after the newest pass of a job at which it asked for the next; 0 if unknown."""
    holds_slot: bool
    """True while this job holds its slot."""
    lower_jobs: int
    """Number of live jobs in lower slots; 0 if this job made the newest pass."""
    next_pass_in_s: float
    """Seconds until this job's next pass is due; 0 before its first."""
    slot_changed: bool
    """True if a slot got another holder since this job's last pass."""


def limit_wait(seconds: float, job_s: float) -> float:
    """Return the wait of ``seconds`` in jobs that last ``job_s``: at most a third of that."""
    return min(seconds, job_s / 3)


def blind_seconds(beat: Mapping[str, Any]) -> float:
    """Return for how long a holder could not read the queue, by its heartbeat; 0 if it can."""
    seconds = beat.get("blind_s")
    return float(seconds) if isinstance(seconds, int | float) else 0.0


def should_make_pass(view: JobView, grace_s: float, job_s: float) -> tuple[bool, str]:
    """Return (True if the job makes a pass now, the reason for or against the pass).

    A daemon that exited has ``grace_s`` to be started again. Then the job in the lowest slot makes
    the passes; if it makes none, because Slurm does not answer on its node for instance, jobs in
    the next slots do. ``job_s``: seconds that a job lasts.
    """
    refusal = _refusal(view, grace_s, job_s)
    if refusal:
        return False, refusal
    if view.next_pass_in_s > 0 and not view.slot_changed:
        return False, f"the next pass is due in {view.next_pass_in_s:.0f} s"
    return True, view.controller.value


def _refusal(view: JobView, grace_s: float, job_s: float) -> str:
    if view.mode is not Mode.RUN:
        return f"the run's mode is {view.mode.value!r}"
    if not view.holds_slot:
        return "this job holds no slot any more"
    if view.controller in (ControllerState.ALIVE, ControllerState.BUSY):
        return str(view.controller.value)
    ended = view.controller in (ControllerState.DEAD, ControllerState.ENDED)
    patience_s = grace_s if ended and view.daemon else 0.0
    overdue_s = view.unchanged_s - max(patience_s, view.pass_wait_s)
    if view.lower_jobs and overdue_s < limit_wait(_TURN_S * view.lower_jobs, job_s):
        return "a job in a lower slot does it"
    if view.unchanged_s < patience_s:
        return f"{view.controller.value}, for {view.unchanged_s:.0f} of {patience_s:.0f} s"
    return ""
