"""Pure. Decides from the figures after each update whether a learner's policy has collapsed.

A collapsed policy always plays the same action, jumped further than from random play to one, or
has a critic whose values no rewards explain. It learns nothing more, and spoils what it is merged
into. Bounds and their evidence: docs/decisions/41-policy-collapse.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite, log

MIN_ENTROPY = 0.001
"""Least mean entropy, as a share of that of random play: one other action in about 5,000 steps."""
MAX_VALUE_ERROR = 50.0
"""Largest error of the critic (root mean square), in standard deviations of discounted returns."""
COLLAPSED_AFTER = 10
"""Updates out of bounds, more than within, after which the policy counts as collapsed."""


@dataclass(frozen=True)
class UpdateFigures:
    """Describes a policy after an update, on steps of the update's rollout.

    `entropy` and `kl` (from the policy that played the rollout) are means in nats, `value_loss` is
    half the mean squared error. `learnt`: at least one minibatch had a finite gradient.
    """

    value_loss: float
    entropy: float
    kl: float
    learnt: bool = True


@dataclass(frozen=True)
class PolicyHealth:
    """Counts updates: `bad_updates` is the excess of those out of bounds, 0 at least.

    `out_of_bounds` names the figures of the newest update that are out of bounds; empty: none is.
    `restarted`: the policy collapsed before, and the learner took other weights.
    """

    out_of_bounds: str = ""
    bad_updates: int = 0
    restarted: bool = False

    def after_update(self, out_of_bounds: str) -> PolicyHealth:
        """Return the health after an update with this result of `find_out_of_bounds`."""
        bad = self.bad_updates + (1 if out_of_bounds else -1)
        return replace(self, out_of_bounds=out_of_bounds, bad_updates=max(0, bad))


def find_out_of_bounds(figures: UpdateFigures, actions: int, deviation: float) -> str:
    """Return the figures that are out of bounds, each with its bound; empty if none is.

    `actions` is the number of actions, `deviation` the standard deviation of discounted returns.
    """
    random_play = log(actions)
    largest_loss = 0.5 * (MAX_VALUE_ERROR * deviation) ** 2
    checks = (
        ("entropy", figures.entropy, "at least", MIN_ENTROPY * random_play),
        ("KL divergence", figures.kl, "at most", random_play),
        ("value loss", figures.value_loss, "at most", largest_loss),
    )
    faults = [
        f"{name} {value + 0.0:.4g} ({side} {bound:.4g})"
        for name, value, side, bound in checks
        if not isfinite(value) or (value < bound if side == "at least" else value > bound)
    ]
    return ", ".join(faults if figures.learnt else ["no finite gradient", *faults])


def next_action(health: PolicyHealth) -> tuple[str, str]:
    """Return what a learner does about its policy, and the reason.

    `continue`, `hold` (publish and store nothing for now), `restart` (take other weights) or
    `stop`: the policy collapsed again after a restart.
    """
    if not health.out_of_bounds:
        return "continue", ""
    if health.bad_updates < COLLAPSED_AFTER:
        return "hold", f"contributions and checkpoints are held: {health.out_of_bounds}"
    bad = f"{health.bad_updates} more updates out of bounds than within"
    collapsed = f"the policy collapsed: {health.out_of_bounds}, {bad}"
    if not health.restarted:
        return "restart", collapsed
    return "stop", f"{collapsed}, again after a restart; lower training.learning_rate, then start"
