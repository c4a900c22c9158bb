"""Pure. Decides from the figures after each update whether a learner's policy has died.

A dead policy always plays the same action, jumped further than from random play to one action, or
has a critic whose values no rewards explain. It learns nothing more, and spoils what it is merged
into. Bounds and their evidence: docs/decisions/41-a-dead-policy.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite, log

MIN_ENTROPY = 0.001
"""Least mean entropy, as a share of that of random play: one other action in about 5,000 steps."""
MAX_VALUE_ERROR = 50.0
"""Largest error of the critic (root mean square), in standard deviations of discounted returns."""
FAULTY_UPDATES = 10
"""Updates out of bounds in a row after which the policy counts as dead."""
SOUND_UPDATES = 100
"""Updates within bounds after which a restart is forgotten, and the next death is the first."""


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
    """Counts updates: `faulty` out of bounds in a row, `sound` within bounds since the restart.

    `fault` names the figures of the newest update that are out of bounds; empty: none is.
    `restarted`: the policy died, and the learner took other weights.
    """

    fault: str = ""
    faulty: int = 0
    sound: int = 0
    restarted: bool = False

    def after_update(self, fault: str) -> PolicyHealth:
        """Return the health after an update with this result of `find_fault`."""
        if fault:
            return replace(self, fault=fault, faulty=self.faulty + 1)
        sound = self.sound + 1
        return PolicyHealth(sound=sound, restarted=self.restarted and sound < SOUND_UPDATES)


def find_fault(figures: UpdateFigures, actions: int, deviation: float) -> str:
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


def decide(health: PolicyHealth) -> tuple[str, str]:
    """Return what a learner does about its policy, and the reason.

    `continue`, `hold` (publish and store nothing for now), `restart` (take other weights) or
    `stop`: the policy died again after a restart, and showed no life in between.
    """
    if not health.fault:
        return "continue", ""
    if health.faulty < FAULTY_UPDATES:
        return "hold", f"contributions and checkpoints are held: {health.fault}"
    dead = f"the policy died: {health.fault}, {health.faulty} updates in a row"
    if not health.restarted:
        return "restart", dead
    again = f"again within {health.sound + health.faulty} updates of its restart"
    return "stop", f"{dead}, {again}; lower training.learning_rate, then start"
