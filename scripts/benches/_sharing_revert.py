"""How often a clean version is taken back and how soon a bad one, in simulated evaluations.

Returns are as those of long games: skewed, with a heavy tail, from starts of which some are easy
for both, some with a tie at nothing. Clean versions wobble by some percent, as learning does. In
the same run the plain rule is asked: a mean of ten episodes 20 % below the median of the last ten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from Daddy.core.intervals import of_share
from Daddy.weights.records.sequential import MOST_PAIRS, Finding, Outcome, Trial

CLEAN, QUICK_CLEAN = 100_000, 500
BAD, QUICK_BAD = 1_000, 50
KEPT = (0.7, 0.5, 0.25, 0.1, 0.0)
"""What bad versions keep of the return."""

PLAIN_EPISODES, PLAIN_FALL, PLAIN_VERSIONS = 10, 0.8, 10
_SEED = 6
_WOBBLE = 0.05

Pairs = NDArray[np.float64]


def correlated(dice: np.random.Generator, kept: float) -> Pairs:
    """(MOST_PAIRS, 2) returns of a version and of the older one; how hard a start is, both feel."""
    start = 0.8 * dice.standard_normal((MOST_PAIRS, 1))
    luck = 0.5 * dice.standard_normal((MOST_PAIRS, 2))
    jackpot = 1.0 + (dice.random((MOST_PAIRS, 2)) < 0.03) * dice.pareto(1.2, (MOST_PAIRS, 2))
    stuck = dice.random((MOST_PAIRS, 1)) < 0.1
    returns: Pairs = np.where(stuck, 0.0, np.exp(start + luck) * jackpot)
    returns[:, 0] *= kept
    return returns


def independent(dice: np.random.Generator, kept: float) -> Pairs:
    """The same where a start decides nothing, with a tail so heavy that it has no variance."""
    returns: Pairs = 0.2 + dice.pareto(1.5, (MOST_PAIRS, 2))
    returns[:, 0] *= kept
    return returns


WORLDS = {"correlated": correlated, "heavy tail": independent}


def judged(pairs: Pairs) -> Finding:
    """The test as a run makes it: a look after every pair, until it is decided."""
    trial = Trial()
    for ours, theirs in pairs.tolist():
        trial.add(ours, theirs)
        if (found := trial.finding()).outcome is not Outcome.OPEN:
            break
    return found


def revert(quick: bool) -> dict[str, Any]:
    """Clean and bad versions in both worlds; ``passed``: at most one false in 10,000."""
    worlds = {name: _world(world, quick) for name, world in WORLDS.items()}
    false = sum(one["clean"]["reverted"] for one in worlds.values())
    clean = sum(one["clean"]["versions"] for one in worlds.values())
    return {
        "clean": clean,
        "falsely_reverted": false,
        "per_10000": 10_000 * false / clean,
        "passed": 10_000 * false <= clean,
        "worlds": worlds,
    }


def _world(world: Any, quick: bool) -> dict[str, Any]:
    dice = np.random.default_rng(_SEED)
    clean, bad = (QUICK_CLEAN, QUICK_BAD) if quick else (CLEAN, BAD)
    return {
        "clean": _clean(world, dice, clean // len(WORLDS)),
        "bad": {f"keeps {kept:g}": _bad(world, dice, kept, bad) for kept in KEPT},
    }


def _clean(world: Any, dice: np.random.Generator, count: int) -> dict[str, Any]:
    found, fired = [], 0
    plain: deque[float] = deque(maxlen=PLAIN_VERSIONS)
    for pairs in _wobbling(world, dice, count):
        found.append(judged(pairs))
        mean = float(pairs[:PLAIN_EPISODES, 0].mean())
        fired += len(plain) == PLAIN_VERSIONS and mean < PLAIN_FALL * median(plain)
        plain.append(mean)
    reverted = sum(one.outcome is Outcome.BAD for one in found)
    return {
        "versions": count,
        "reverted": reverted,
        "upper_95": of_share(reverted, count).high,
        **_told(found, Outcome.FINE),
        "plain_rule_fired": fired / count,
    }


def _wobbling(world: Any, dice: np.random.Generator, count: int) -> Iterator[Pairs]:
    for _ in range(count):
        yield world(dice, float(np.exp(_WOBBLE * dice.standard_normal())))


def _bad(world: Any, dice: np.random.Generator, kept: float, count: int) -> dict[str, Any]:
    found = [judged(world(dice, kept)) for _ in range(count)]
    missed = sum(one.outcome is Outcome.FINE for one in found)
    return {**_told(found, Outcome.BAD), "called_fine": missed / count}


def _told(found: list[Finding], outcome: Outcome) -> dict[str, Any]:
    """The share that came out so, and the pairs that it took."""
    pairs = sorted(one.pairs for one in found if one.outcome is outcome)
    return {
        outcome.value: len(pairs) / len(found),
        "pairs_median": median(pairs) if pairs else None,
        "pairs_90": pairs[9 * len(pairs) // 10] if pairs else None,
    }
