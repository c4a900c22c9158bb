"""Pure: is a version worse than an older one? A sequential test on pairs of returns.

A pair is one episode of each from the same fixed start. All that counts of it is its balance
(x - y) / (|x| + |y|), from -1 (nothing left) over 0 (a tie) to 1: so one lucky episode counts no
more than any other, and no scale of the reward has to be known.

Evidence is the wealth of a gambler who bets on every balance that the version is worse. Against a
version that keeps nine tenths of the return no bet wins on average, so the chance that the wealth
ever reaches 1 / alpha is at most alpha (Ville's inequality), however often one looks and whenever
one stops. The gambler plays several stakes at once, for small losses and for collapses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

FALSE_REVERTS = 5e-5
"""Chance that a version that is no worse is ever called bad: half a version in 10,000."""

FALSE_PEACE = 0.05
"""Chance that a version that lost about half of its return is ever called fine."""

TOLERATED = 1.0 / 19.0
"""Mean balance that is forgiven: nine tenths of the return are left. (1 - 0.9) / (1 + 0.9)."""

TOO_MUCH = 0.25
"""Mean balance that must be ruled out before a version is called fine: six tenths are left."""

MOST_PAIRS = 192
"""Pairs after which a version that is neither is let go: it has lost something, and not much."""

STAKES = (0.1, 0.25, 0.5, 0.75, 0.98)
"""Shares of the largest bet that cannot ruin."""


class Outcome(str, Enum):
    """What pairs say about a version."""

    BAD = "bad"
    FINE = "fine"
    OPEN = "undecided"
    LET_GO = "let go"


@dataclass(frozen=True, slots=True)
class Finding:
    """An outcome, its reason in words, and the number of pairs that it rests on."""

    outcome: Outcome
    reason: str
    pairs: int


def balance(ours: float, theirs: float) -> float:
    """How two finite returns compare, in [-1, 1]; a tie is 0."""
    size = abs(ours) / 2 + abs(theirs) / 2  # halves: the sum of two large ones is still finite
    return (ours / 2 - theirs / 2) / size if size else 0.0


@dataclass(slots=True)
class _Gambler:
    """Bets that balances lie beyond ``fair``: below it, or with ``above`` above it."""

    fair: float
    above: bool
    logs: list[float] = field(default_factory=lambda: [0.0] * len(STAKES))

    def bet(self, found: float) -> None:
        gain = found - self.fair if self.above else self.fair - found
        worst = 1.0 + self.fair if self.above else 1.0 - self.fair
        self.logs = [
            old + math.log1p(stake / worst * gain)
            for old, stake in zip(self.logs, STAKES, strict=True)
        ]

    def log_wealth(self) -> float:
        most = max(self.logs)
        return most + math.log(sum(math.exp(one - most) for one in self.logs) / len(self.logs))


@dataclass(slots=True)
class Trial:
    """What the pairs so far say, one after the other; their order does not matter."""

    pairs: int = 0
    total: float = 0.0
    _worse: _Gambler = field(default_factory=lambda: _Gambler(-TOLERATED, above=False))
    _close: _Gambler = field(default_factory=lambda: _Gambler(-TOO_MUCH, above=True))

    def add(self, ours: float, theirs: float) -> None:
        """One more pair: the returns of the version and of the older one."""
        found = balance(ours, theirs)
        self.pairs, self.total = self.pairs + 1, self.total + found
        self._worse.bet(found)
        self._close.bet(found)

    def finding(self, false_reverts: float = FALSE_REVERTS) -> Finding:
        """The outcome now. ``false_reverts`` is the alpha of "bad"."""
        said = self._said()
        if self._worse.log_wealth() >= -math.log(false_reverts):
            return Finding(Outcome.BAD, f"it plays worse: {said}", self.pairs)
        if self._close.log_wealth() >= -math.log(FALSE_PEACE):
            return Finding(Outcome.FINE, f"it plays no worse: {said}", self.pairs)
        if self.pairs >= MOST_PAIRS:
            return Finding(Outcome.LET_GO, f"it cannot be told: {said}", self.pairs)
        return Finding(Outcome.OPEN, f"not yet known: {said}", self.pairs)

    def _said(self) -> str:
        if not self.pairs:
            return "no pair was played"
        mean = self.total / self.pairs
        kept = 100.0 * (1.0 + mean) / (1.0 - mean) if mean < 1.0 else math.inf
        return f"about {kept:.0f} % of the older one's return in {self.pairs} pairs"


def compare(
    returns: Iterable[tuple[float, float]], false_reverts: float = FALSE_REVERTS
) -> Finding:
    """What (return of the version, return of the older one) say, all of them at once."""
    trial = Trial()
    for ours, theirs in returns:
        trial.add(ours, theirs)
    return trial.finding(false_reverts)
