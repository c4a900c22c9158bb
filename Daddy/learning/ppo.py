"""One PPO update (Schulman et al., 2017), and the critic's fit after an adoption.

Advantages are normalised per minibatch; where wanted, values are clipped around the rollout's. A
minibatch whose gradient is not finite changes nothing and is counted. An adopted version replaces
the critic by an average of critics, each of which knew its own learner's weights: its last layer is
fitted to the known returns where that helps much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from Daddy.learning.adam import FlatAdam
from Daddy.learning.device import mixed_precision
from Daddy.learning.hyperparameters import PpoSettings
from Daddy.learning.policy import ActorCritic
from Daddy.learning.rollout_buffer import Minibatch, Rollout

if TYPE_CHECKING:
    from Daddy.learning.interfaces import StateDict

_EPSILON = 1e-8
_NAMES = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")


@dataclass
class Learner:
    """The policy, its optimizer and the generator that shuffles; changed by `update` only."""

    policy: ActorCritic
    optimizer: FlatAdam
    settings: PpoSettings
    generator: torch.Generator
    device: torch.device

    @property
    def minibatches(self) -> int:
        """Minibatches of one update."""
        settings = self.settings
        sequences = settings.steps_per_iteration // settings.cut.length
        return settings.update_epochs * settings.cut.batches(sequences)

    def update(self, rollout: Rollout, rate: float) -> dict[str, float]:
        """All passes over `rollout`; returns the means of what `learning.run_log` names."""
        losses, norms = [], []
        for _ in range(self.settings.update_epochs):
            for batch in rollout.minibatches(self.generator, self.device):
                loss, diagnosis = self._loss(batch)
                self.optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                norms.append(self.optimizer.step(rate, self.settings.max_grad_norm))
                losses.append(diagnosis)
        means = torch.stack(losses).mean(0).tolist()
        finite = [norm for norm in norms if norm < float("inf")]
        return {
            **dict(zip(_NAMES, means, strict=True)),
            "gradient_norm": sum(finite) / max(1, len(finite)),
            "skipped_minibatches": float(len(norms) - len(finite)),
        }

    def _loss(self, batch: Minibatch) -> tuple[torch.Tensor, torch.Tensor]:
        with mixed_precision(self.device):
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


CRITIC_STEPS = 2048
"""Steps of the newest rollout that a critic is judged on, and fitted to, after an adoption."""
RIDGE = 1.0
"""Weight of staying where one is, as a share of the features' mean square, in that fit: a nearly
free fit follows one rollout's luck, and was most of what the game's learners contributed."""
SURE = 0.8
"""Share of the squared error that may be left, on the half that was not fitted, for a fit to be
worth leaving the critic's own learning for."""


@torch.inference_mode()
def log_probs(policy: ActorCritic, weights: StateDict, batch: Minibatch) -> Tensor:
    """Log-probabilities, (T, B, A), of the policy's actions on `batch` with these weights."""
    from torch.func import functional_call  # a tenth of a second that a boot need not wait for

    device = batch.starts.device
    there = {name: one.to(device) for name, one in weights.items()}
    seen = (batch.observations, batch.state, batch.starts)
    logits, _, _ = functional_call(policy, there, seen)
    return torch.log_softmax(logits, -1)


def divergence(before: Tensor, after: Tensor) -> float:
    """Mean KL divergence in nats from the first policy to the second; arguments (..., A)."""
    return float((before.exp() * (before - after)).sum(-1).mean())


@torch.no_grad()
def guard_critic(policy: ActorCritic, batch: Minibatch) -> bool:
    """Fit the critic to the returns of `batch` if that is sure to help; whether it was.

    Sure: fitted to one half of the sequences it leaves less than ``SURE`` of the squared error on
    the other half. Fewer than two sequences say nothing.
    """
    features, _ = policy.features(batch.observations, batch.state, batch.starts)
    halves = [(features[:, half].flatten(0, 1), batch.targets[:, half].flatten())
              for half in (slice(0, None, 2), slice(1, None, 2))]  # fmt: skip
    if not len(halves[1][1]):
        return False
    kept = policy.critic.weight.clone(), policy.critic.bias.clone()
    before = sum(_squares(policy, *half) for half in halves)
    after = 0.0
    for fitted, other in (halves, halves[::-1]):
        fit_critic(policy, *fitted)
        after += _squares(policy, *other)
        policy.critic.weight.copy_(kept[0])
        policy.critic.bias.copy_(kept[1])
    if not after < SURE * before:
        return False
    fit_critic(policy, features.flatten(0, 1), batch.targets.flatten())
    return True


def _squares(policy: ActorCritic, features: Tensor, targets: Tensor) -> float:
    """The sum of the critic's squared errors."""
    return float((policy.judge(features)[1] - targets).square().sum())


@torch.no_grad()
def fit_critic(policy: ActorCritic, features: Tensor, targets: Tensor) -> None:
    """Move the critic's last layer to what was returned, no further than the ridge lets it.

    features (S, F), targets (S,), both of the same S samples.
    """
    ones = torch.ones(len(features), 1)
    known = torch.cat([features.cpu(), ones], -1).double()  # an Apple GPU has no float64
    head = torch.cat([policy.critic.weight[0], policy.critic.bias]).cpu().double()
    square = known.T @ known
    stay = RIDGE * float(square.diagonal().mean())
    lack = known.T @ (targets.cpu().double() - known @ head)
    square.diagonal().add_(stay)
    fitted = (head + torch.linalg.solve(square, lack)).float()
    if fitted.isfinite().all():
        policy.critic.weight.copy_(fitted[None, :-1])
        policy.critic.bias.copy_(fitted[-1:])
