"""Pure: the learning rate over the run's steps, how often to share, how a rollout is cut."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

_SHARE = 0.005
"""Most of a learner's time that offering its progress may take, and that looking for others'."""
_BURST = 10
"""Times its share that a step may take within a short time, from what was saved before."""


@dataclass
class Cost:
    """What a recurring step took, in seconds: in all, and the last time."""

    total_s: float = 0.0
    last_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.total_s += seconds
        self.last_s = seconds


def learning_rate(base: float, kind: str, steps: int, total_steps: int) -> float:
    """The rate after `steps` of `total_steps` (of the whole fleet, so that late joiners agree).

    `constant`, or `linear` from `base` down to a tenth of it; an unlimited run (0) is constant.
    """
    if kind == "constant" or total_steps <= 0:
        return base
    done = min(1.0, steps / total_steps)
    return base * (1.0 - 0.9 * done)


def affordable(cost: Cost, age_s: float, since_s: float) -> bool:
    """Return whether a step may be done again: all of it stays within its share of `age_s` so far.

    The first one's cost is unknown; those that follow pay for it. What was saved is not spent at
    once: within any time it takes ten times its share at most.
    """
    within = cost.total_s + cost.last_s <= _SHARE * age_s
    return within and since_s * _SHARE * _BURST >= cost.last_s


@dataclass(frozen=True)
class Cut:
    """How a rollout becomes minibatches: sequences of `length` steps, `per_batch` at a time."""

    length: int
    per_batch: int

    def batches(self, sequences: int) -> int:
        """Minibatches that so many sequences make: as few as hold them, and all of one size.

        A small rest of its own would weigh as much in the update as all others.
        """
        return -(-sequences // self.per_batch)


def cut(horizon: int, num_envs: int, batch_size: int, bptt: int) -> Cut:
    """Sequences as long as gradients may flow, as many per minibatch as `batch_size` holds.

    The length divides the horizon, so that every step is used exactly once per pass.
    """
    length = gcd(horizon, max(1, min(bptt, batch_size)))
    sequences = num_envs * (horizon // length)
    return Cut(length, min(sequences, max(1, batch_size // length)))
