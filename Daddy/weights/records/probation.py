"""Pure: which version stands on probation, against which it is played, and what follows.

Every commit record carries it on, so that all mergers, jobs and readers agree. One version at a
time is on probation; the newest one held good is its reference and what a revert goes back to. A
laptop's evaluation may say which version is looked at next, now and then, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from Daddy.weights.records.sequential import Finding, Outcome

PATIENCE = 64
"""Versions that may come while one is on probation; then the newest takes its place."""

FURTHEST = 128
"""Versions that one revert may take back; a reference is not left further behind."""

BETWEEN_REVERTS = 8
"""Versions from one revert to the next, at least."""

BETWEEN_SUSPICIONS, BETWEEN_SUSPICIONS_OF_ONE = 16, 64
"""Versions between two probations that laptops asked for: of all laptops, and of one."""

KEPT_RANGES = 8
"""Reverts whose versions a commit record still names; whoever stands on older ones is too late."""


@dataclass(frozen=True, slots=True)
class Probation:
    """In a commit record: the newest version held good, and the one on probation (0: none).

    ``since`` is the version whose record put it there, ``asked_by`` the laptop that suspected it.
    """

    good: int = 0
    trial: int = 0
    since: int = 0
    asked_by: str = ""


UNTRIED = Probation()
"""Of version 0, and of records of before there was any."""


@dataclass(frozen=True, slots=True)
class Revert:
    """In a commit record: the versions that it takes back, and why.

    ``bad`` was found worse than ``good``, to which it goes back. ``without`` names the
    contributions ("peer/incarnation/sequence") under suspicion, ``replayed`` counts those added
    again; all others stood on what is taken back.
    """

    first: int
    last: int
    bad: int
    good: int
    reason: str
    without: tuple[str, ...]
    replayed: int


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A laptop found ``version`` worse."""

    peer: str
    version: int


@dataclass(frozen=True, slots=True)
class Step:
    """The probation that the next version's record carries; ``bad``: it is to be a revert."""

    probation: Probation
    bad: bool
    reason: str


def advance(now: Probation, head: int, finding: Finding, last_revert: int) -> Step:
    """What follows from ``finding`` about the version on probation, with ``head`` the newest.

    ``last_revert`` is the newest version that was a revert; 0 when there was none.
    """
    if head - now.good > FURTHEST:
        held = replace(now, good=now.trial or head)
        return _next(held, head, f"v{held.good} is held good: nobody compared it in time")
    if not now.trial:
        return _next(now, head, "nothing is on probation")
    if finding.outcome is Outcome.BAD:
        soon = last_revert and head + 1 - last_revert < BETWEEN_REVERTS
        return Step(now, not soon, f"v{now.trial} against v{now.good}: {finding.reason}")
    if finding.outcome is Outcome.FINE:
        return _next(Probation(good=now.trial), head, f"v{now.trial} is held good")
    if finding.outcome is Outcome.LET_GO or head - now.since >= PATIENCE:
        late = head - now.good > FURTHEST // 2
        left = Probation(good=now.trial if late else now.good)
        return _next(left, head, f"v{now.trial} is let go: {finding.reason}")
    return Step(now, bad=False, reason=finding.reason)


def _next(now: Probation, head: int, reason: str) -> Step:
    """The newest version comes on probation, if it is newer than the one held good."""
    if head <= now.good:
        return Step(Probation(good=now.good), bad=False, reason=reason)
    return Step(Probation(now.good, head, head + 1), bad=False, reason=reason)


def heed(step: Step, head: int, suspicions: Sequence[Suspicion], asked: Mapping[int, str]) -> Step:
    """The same, with a suspected version on probation if it is time for one.

    ``asked`` maps the versions that began a probation asked for by a laptop to that laptop.
    """
    if step.bad or any(head - since < BETWEEN_SUSPICIONS for since in asked):
        return step
    for one in suspicions:
        mine = [since for since, peer in asked.items() if peer == one.peer]
        heard = any(head - since < BETWEEN_SUSPICIONS_OF_ONE for since in mine)
        if not heard and step.probation.good < one.version <= head:
            now = Probation(step.probation.good, one.version, head + 1, one.peer)
            return Step(now, bad=False, reason=f"{one.peer} suspects v{one.version}")
    return step


def is_reverted(version: int, ranges: Sequence[tuple[int, int]]) -> bool:
    """Whether ``version`` lies in what was taken back."""
    return any(first <= version <= last for first, last in ranges)
