"""Pure: from samples of a controller's CPU to what a pass costs and what a second of waiting does.

A pass lasts from the first command that it asks the scheduler to the status that it writes last:
milliseconds, or as long as Slurm is silent. All else is waiting: looks at small files.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

MARGIN_S = 1.0
"""Seconds before what begins a pass and after what ends it that may hold some of its work."""


@dataclass(frozen=True)
class Span:
    """What the controller used between two samples, at `ended` on the monotonic clock."""

    ended: float
    seconds: float
    cpu_s: float
    calls: int
    """How much the counters of the scheduler's commands grew."""
    passes: int

    @property
    def begun(self) -> float:
        return self.ended - self.seconds


@dataclass(frozen=True)
class Cost:
    """CPU per second far from any pass, CPU per pass from what is left, seconds far from any."""

    idle: float
    each: float
    waited_s: float


def cost(spans: Sequence[Span]) -> Cost:
    """What a controller's CPU is made of; `spans` in the order of their time."""
    passes = _passes(spans)
    ends = [end for _, end in passes]
    still = [one for one in spans if not _in_a_pass(one, passes, ends)]
    waited = sum(one.seconds for one in still)
    idle = sum(one.cpu_s for one in still) / waited if waited else 0.0
    busy = sum(one.cpu_s - idle * one.seconds for one in spans)
    return Cost(idle, max(0.0, busy / len(ends)) if ends else 0.0, waited)


def _passes(spans: Sequence[Span]) -> list[tuple[float, float]]:
    """When each began, at the latest, and ended."""
    found, asked = list[tuple[float, float]](), None
    for one in spans:
        if one.calls and asked is None:
            asked = one.begun
        if one.passes:
            found.append((one.begun if asked is None else asked, one.ended))
            asked = None
    return found


def _in_a_pass(span: Span, passes: Sequence[tuple[float, float]], ends: Sequence[float]) -> bool:
    """Whether a pass was made during the span, shortly before it or soon after it."""
    follows = bisect_left(ends, span.begun - MARGIN_S)
    return follows < len(passes) and passes[follows][0] <= span.ended + MARGIN_S
