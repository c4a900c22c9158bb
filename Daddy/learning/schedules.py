"""Pure. Computes the learning rate and the time budget of sharing."""

from dataclasses import dataclass

_SHARE = 0.005
"""Largest share of a learner's time for publishing, and again for checking for newer versions."""
_BURST = 10
"""Largest multiple of that share within a short time, paid from unused earlier time."""


@dataclass
class Cost:
    """Holds the seconds that a recurring activity took: in total, and in its last run."""

    total_s: float = 0.0
    last_s: float = 0.0

    def add_run(self, seconds: float) -> None:
        self.total_s += seconds
        self.last_s = seconds


def learning_rate(base: float, kind: str, steps: int, total_steps: int) -> float:
    """Return the learning rate after `steps` of all peers' `total_steps` (0: no limit).

    The `kind` is `constant`, or `linear` from `base` down to a tenth of `base` at `total_steps`.
    """
    if kind == "constant" or total_steps <= 0:
        return base
    fraction = min(1.0, steps / total_steps)
    return base * (1.0 - 0.9 * fraction)


def affordable(cost: Cost, age_s: float, since_s: float) -> bool:
    """Return True if an activity may run again within its share of the learner's age `age_s`.

    The share is 0.5 %: all runs so far and one like the last must fit. `since_s` seconds after
    the last run, unused time counts up to ten times the share of those seconds.
    """
    within = cost.total_s + cost.last_s <= _SHARE * age_s
    return within and since_s * _SHARE * _BURST >= cost.last_s
