"""Pure. Computes the learning rate, the time budget of sharing, and a rollout's minibatches."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

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


@dataclass(frozen=True)
class SequencePlan:
    """Holds the split of a rollout: sequences of `length` steps, `per_minibatch` sequences each."""

    length: int
    per_minibatch: int

    def minibatches(self, sequences: int) -> int:
        """Return the smallest number of equal minibatches that hold `sequences` sequences.

        They are equal since a small last minibatch would weigh as much in the update as a full one.
        """
        return -(-sequences // self.per_minibatch)


def plan_sequences(horizon: int, num_envs: int, batch_size: int, bptt: int) -> SequencePlan:
    """Plan sequences of up to `bptt` steps, as many per minibatch as `batch_size` steps hold.

    The length divides the horizon, so that every step is used exactly once per epoch.
    """
    length = gcd(horizon, max(1, min(bptt, batch_size)))
    sequences = num_envs * (horizon // length)
    return SequencePlan(length, min(sequences, max(1, batch_size // length)))
