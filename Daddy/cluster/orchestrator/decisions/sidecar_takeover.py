"""Pure. Decides whether a running job makes the controller's next pass, because no other will."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from Daddy.cluster.orchestrator.controller_records import Mode


class Helm(str, Enum):
    """The controller's lease, as seen from a job."""

    LIVES = "a controller lives"
    SILENT = "the controller's beat stands still"
    GONE = "the controller's process is gone"
    LEFT = "no controller holds the run"


@dataclass(frozen=True, slots=True)
class Sight:
    """The view of a job. Times are seconds on its own clock."""

    mode: Mode
    daemon: bool
    """Whether a controller is meant to live on a login node."""
    helm: Helm
    still_s: float
    """Time since ``helm`` changed, or the beat stopped."""
    mine: bool
    """Whether our job still holds its slot."""
    lower: bool
    """Whether a living job holds a lower slot."""
    pass_in_s: float
    """Until our own next pass is due; 0 where we made none yet."""
    news: bool
    """Whether a slot changed hands since our last pass."""


def turn(sight: Sight, silence_s: float, grace_s: float) -> tuple[bool, str]:
    """Whether the job makes a pass now, and the reason.

    A beat that stands still for ``silence_s`` is a dead controller's; where one is meant to live, a
    controller that left gets ``grace_s`` to come back.
    """
    refusal = _why_not(sight, silence_s, grace_s)
    if refusal:
        return False, refusal
    if sight.pass_in_s > 0 and not sight.news:
        return False, f"the next pass is due in {sight.pass_in_s:.0f} s"
    return True, sight.helm.value


def _why_not(sight: Sight, silence_s: float, grace_s: float) -> str:
    if sight.mode is not Mode.RUN:
        return f"the run is to {sight.mode.value}"
    if not sight.mine:
        return "this job holds no slot any more"
    if sight.helm is Helm.LIVES:
        return Helm.LIVES.value
    if sight.lower:
        return "a job in a lower slot does it"
    patience = silence_s if sight.helm is Helm.SILENT else grace_s * sight.daemon
    if sight.still_s < patience:
        return f"{sight.helm.value}, for {sight.still_s:.0f} of {patience:.0f} s"
    return ""
