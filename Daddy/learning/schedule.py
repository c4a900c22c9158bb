"""Pure: the learning rate over the run's steps, how often to share, how a rollout is cut."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

LONGEST_PAUSE_S = 600.0
"""Between two contributions, however dear they are."""


def learning_rate(base: float, kind: str, steps: int, total_steps: int) -> float:
    """The rate after `steps` of `total_steps` (of the whole fleet, so that late joiners agree).

    `constant`, or `linear` from `base` down to a tenth of it; an unlimited run (0) is constant.
    """
    if kind == "constant" or total_steps <= 0:
        return base
    done = min(1.0, steps / total_steps)
    return base * (1.0 - 0.9 * done)


def affordable(since_s: float, spent_s: float, share: float) -> bool:
    """Whether what cost `spent_s` seconds may be done again after `since_s` seconds.

    What got stuck once, at a disk that hung, is tried again after ten minutes at the latest.
    """
    return since_s >= min(spent_s / share, LONGEST_PAUSE_S)


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
