"""Pure: whether a running job makes the controller's next pass, because nobody else does."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from Daddy.cluster.orchestrator.records import Mode


class Helm(str, Enum):
    """Who stands at the controller's lease, as seen from a job."""

    LIVES = "a controller lives"
    SILENT = "the controller's beat stands still"
    GONE = "the controller's process is gone"
    LEFT = "no controller holds the run"


@dataclass(frozen=True, slots=True)
class Sight:
    """What a job sees. Times are seconds on its own clock."""

    mode: Mode
    daemon: bool
    """Whether a controller is meant to live on a login node."""
    helm: Helm
    still_s: float
    """How long ``helm`` has been so, or its beat has stood still."""
    mine: bool
    """Whether our job still holds its slot."""
    lower: bool
    """Whether a living job holds a lower slot."""
    pass_in_s: float
    """Until our own next pass is due; 0 where we made none yet."""
    news: bool
    """Whether a slot changed hands since our last pass."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Whether it is ours to make a pass now, and why (not)."""

    now: bool
    reason: str


def turn(sight: Sight, silence_s: float, grace_s: float) -> Turn:
    """``silence_s``: a beat that stands still for so long is a dead controller's; ``grace_s``: what
    a controller that left gets to come back, where one is meant to live.
    """
    refusal = _why_not(sight, silence_s, grace_s)
    if refusal:
        return Turn(now=False, reason=refusal)
    if sight.pass_in_s > 0 and not sight.news:
        return Turn(now=False, reason=f"the next pass is due in {sight.pass_in_s:.0f} s")
    return Turn(now=True, reason=sight.helm.value)


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
