"""One PPO update (Schulman et al., 2017): a rollout in, better weights and their diagnosis out.

Advantages are normalised per minibatch; where wanted, values are clipped around the rollout's. A
minibatch whose gradient is not finite changes nothing and is counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from Daddy.learning.adam import FlatAdam
from Daddy.learning.device import mixed_precision
from Daddy.learning.policy import ActorCritic
from Daddy.learning.rollout import Minibatch, Rollout
from Daddy.learning.settings import PpoSettings

_EPSILON = 1e-8
_WARM_MINIBATCHES = 10
_NAMES = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")


@dataclass
class Learner:
    """The policy, its optimizer and the generator that shuffles; changed by `update` only."""

    policy: ActorCritic
    optimizer: FlatAdam
    settings: PpoSettings
    generator: torch.Generator
    device: torch.device
    cold: int = 0
    """Minibatches until the rate is whole again, after weights that came from elsewhere."""

    @property
    def minibatches(self) -> int:
        """Minibatches of one update."""
        settings = self.settings
        sequences = settings.steps_per_iteration // settings.cut.length
        return settings.update_epochs * settings.cut.batches(sequences)

    def update(self, rollout: Rollout, rate: float) -> dict[str, float]:
        """All passes over `rollout`; returns the means of what `core.metrics` names."""
        losses, norms = [], []
        for _ in range(self.settings.update_epochs):
            for batch in rollout.minibatches(self.generator, self.device):
                loss, diagnosis = self._loss(batch)
                self.optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                norms.append(self.optimizer.step(self._warmed(rate), self.settings.max_grad_norm))
                losses.append(diagnosis)
        means = torch.stack(losses).mean(0).tolist()
        finite = [norm for norm in norms if norm < float("inf")]
        return {
            **dict(zip(_NAMES, means, strict=True)),
            "gradient_norm": sum(finite) / max(1, len(finite)),
            "skipped_minibatches": float(len(norms) - len(finite)),
        }

    def cool(self) -> None:
        """Begin with small steps: the moments belong to weights that were left."""
        self.cold = _WARM_MINIBATCHES

    def _warmed(self, rate: float) -> float:
        if not self.cold:
            return rate
        self.cold -= 1
        return rate * (_WARM_MINIBATCHES - self.cold) / (_WARM_MINIBATCHES + 1)

    def _loss(self, batch: Minibatch) -> tuple[torch.Tensor, torch.Tensor]:
        with mixed_precision(self.device, self.settings.mixed_precision):
            logits, values, _ = self.policy(batch.observations, batch.state, batch.starts)
        log_probs = torch.log_softmax(logits, -1)
        entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
        log_ratio = log_probs.gather(-1, batch.actions.unsqueeze(-1)).squeeze(-1) - batch.log_probs
        ratio = log_ratio.exp()
        policy_loss = self._surrogate(ratio, batch.advantages)
        value_loss = self._value_loss(values, batch)
        total = policy_loss + self.settings.value_coefficient * value_loss
        with torch.no_grad():
            divergence = (ratio - 1.0 - log_ratio).mean()  # Schulman's low-variance estimate
            clipped = ((ratio - 1.0).abs() > self.settings.clip).float().mean()
            parts = torch.stack((policy_loss, value_loss, entropy, divergence, clipped)).detach()
        return total - self.settings.entropy * entropy, parts

    def _value_loss(self, values: torch.Tensor, batch: Minibatch) -> torch.Tensor:
        """Half the squared error; under a clip the worse of it and of the value moved so far."""
        error = (values - batch.targets).square()
        clip = self.settings.value_clip
        if clip:
            moved = batch.values + (values - batch.values).clamp(-clip, clip)
            error = torch.max(error, (moved - batch.targets).square())
        return 0.5 * error.mean()

    def _surrogate(self, ratio: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
        spread = advantages.std(correction=0) + _EPSILON
        normal = (advantages - advantages.mean()) / spread
        clipped = ratio.clamp(1.0 - self.settings.clip, 1.0 + self.settings.clip)
        return -torch.min(ratio * normal, clipped * normal).mean()
