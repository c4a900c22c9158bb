"""Runs the PPO update (Schulman et al., 2017), and fits the critic after an adoption.

Advantages are normalised per minibatch, with DDP over the minibatches of all ranks; with
`value_clip`, values are clipped around the rollout's. A minibatch whose gradient is not finite
changes nothing and is counted. The critic of an adopted version is an average of critics that were
each trained for another learner's weights; its last layer is fitted to the newest rollout's returns
where that reduces its error much.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from Daddy.core.hyperparameters import PpoSettings
from Daddy.learning.adam import FlatAdam
from Daddy.learning.device import mixed_precision
from Daddy.learning.interfaces import ProcessGroup, SingleProcess
from Daddy.learning.policy import ActorCritic
from Daddy.learning.policy_health import UpdateFigures
from Daddy.learning.rollout_buffer import Minibatch, Rollout

if TYPE_CHECKING:
    from Daddy.learning.interfaces import StateDict

_EPSILON = 1e-8
_MEASURED_STEPS = 128
"""Steps of the rollout on which the updated policy is measured: 2 % of an update's work."""
_NAMES = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")


@dataclass
class PpoUpdater:
    """The policy, its optimizer, and the generator that shuffles minibatches."""

    policy: ActorCritic
    optimizer: FlatAdam
    settings: PpoSettings
    generator: torch.Generator
    device: torch.device
    group: ProcessGroup = field(default_factory=SingleProcess)

    @property
    def minibatches(self) -> int:
        """Number of minibatches of one update."""
        settings = self.settings
        sequences = settings.steps_per_iteration // settings.sequences.length
        return settings.update_epochs * settings.sequences.minibatches(sequences)

    def update(self, rollout: Rollout, rate: float) -> dict[str, float]:
        """Run `update_epochs` epochs over `rollout`; return the mean of each metric."""
        metrics, norms = [], []
        for _ in range(self.settings.update_epochs):
            for batch in rollout.minibatches(self.generator, self.device):
                loss, batch_metrics = self._loss(batch)
                self.optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                norms.append(self.optimizer.step(rate, self.settings.max_grad_norm))
                metrics.append(batch_metrics)
        means = torch.stack(metrics).mean(0).tolist()
        finite = [norm for norm in norms if norm < float("inf")]
        return {
            **dict(zip(_NAMES, means, strict=True)),
            "gradient_norm": sum(finite) / max(1, len(finite)),
            "skipped_minibatches": float(len(norms) - len(finite)),
        }

    @torch.inference_mode()
    def measure(self, rollout: Rollout, *, learnt: bool) -> UpdateFigures:
        """Return the figures of the updated policy on steps from all of `rollout`."""
        _, metrics = self._loss(rollout.spread_sample(_MEASURED_STEPS, self.device))
        value_loss, entropy, kl = metrics[1:4].tolist()
        return UpdateFigures(value_loss, entropy, kl, learnt)

    def _loss(self, batch: Minibatch) -> tuple[torch.Tensor, torch.Tensor]:
        with mixed_precision(self.device):
            logits, values, _ = self.policy(batch.observations, batch.lstm_state, batch.starts)
        log_probs = torch.log_softmax(logits, -1)
        entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
        log_ratio = log_probs.gather(-1, batch.actions.unsqueeze(-1)).squeeze(-1) - batch.log_probs
        ratio = log_ratio.exp()
        policy_loss = self._policy_loss(ratio, batch.advantages)
        value_loss = self._value_loss(values, batch)
        total = policy_loss + self.settings.value_coefficient * value_loss
        with torch.no_grad():
            approx_kl = (ratio - 1.0 - log_ratio).mean()  # Schulman's low-variance estimate
            clipped = ((ratio - 1.0).abs() > self.settings.clip).float().mean()
            metrics = torch.stack((policy_loss, value_loss, entropy, approx_kl, clipped)).detach()
        return total - self.settings.entropy * entropy, metrics

    def _value_loss(self, values: torch.Tensor, batch: Minibatch) -> torch.Tensor:
        """Return half the mean squared error; with `value_clip` at least that of clipped values."""
        error = (values - batch.returns).square()
        clip = self.settings.value_clip
        if clip:
            clipped = batch.values + (values - batch.values).clamp(-clip, clip)
            error = torch.max(error, (clipped - batch.returns).square())
        return 0.5 * error.mean()

    def _policy_loss(self, ratio: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
        """Return the clipped surrogate loss of normalised advantages."""
        mean, deviation = self._moments(advantages)
        advantages = (advantages - mean) / (deviation + _EPSILON)
        clipped = ratio.clamp(1.0 - self.settings.clip, 1.0 + self.settings.clip)
        return -torch.min(ratio * advantages, clipped * advantages).mean()

    def _moments(self, advantages: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation over the minibatches of all ranks, equal in size."""
        if self.group.size == 1:
            return advantages.mean(), advantages.std(correction=0)
        exact = advantages.cpu().double()
        sums = torch.stack((exact.mean(), exact.square().mean()))
        self.group.average(sums)
        variance = (sums[1] - sums[0].square()).clamp(min=0.0)
        mean, deviation = torch.stack((sums[0], variance.sqrt())).to(advantages)
        return mean, deviation


CRITIC_STEPS = 2048
"""Steps of the newest rollout that the critic is fitted to after an adoption."""
RIDGE = 1.0
"""Ridge penalty of that fit on changes of the layer, as a share of the features' mean square. With
a small one the fit follows the noise of one rollout, which then dominated the contributions."""
MAX_ERROR_LEFT = 0.8
"""Share of the squared error, on held-out sequences, below which a fit is applied."""


@torch.inference_mode()
def policy_log_probs(policy: ActorCritic, weights: StateDict, batch: Minibatch) -> Tensor:
    """Return the log-probabilities (T, B, A) of all actions on `batch` with these weights."""
    from torch.func import functional_call  # 0.1 s of import that a start need not wait for

    device = batch.starts.device
    on_device = {name: tensor.to(device) for name, tensor in weights.items()}
    inputs = (batch.observations, batch.lstm_state, batch.starts)
    logits, _, _ = functional_call(policy, on_device, inputs)
    return torch.log_softmax(logits, -1)


def kl_divergence(before: Tensor, after: Tensor) -> float:
    """Return the mean of KL(before || after) in nats; both are log-probabilities (..., A)."""
    return float((before.exp() * (before - after)).sum(-1).mean())


@torch.no_grad()
def fit_critic_if_better(policy: ActorCritic, batch: Minibatch) -> bool:
    """Fit the critic to the returns of `batch` if that clearly helps; return True if it was.

    It helps if a fit to either half of the sequences leaves less than ``MAX_ERROR_LEFT`` of the
    squared error on the other half. With fewer than two sequences nothing is fitted.
    """
    features, _ = policy.features(batch.observations, batch.lstm_state, batch.starts)
    halves = [(features[:, half].flatten(0, 1), batch.returns[:, half].flatten())
              for half in (slice(0, None, 2), slice(1, None, 2))]  # fmt: skip
    if not len(halves[1][1]):
        return False
    original = policy.critic.weight.clone(), policy.critic.bias.clone()
    before = sum(_squared_error(policy, *half) for half in halves)
    after = 0.0
    for fitted, held_out in (halves, halves[::-1]):
        fit_critic(policy, *fitted)
        after += _squared_error(policy, *held_out)
        policy.critic.weight.copy_(original[0])
        policy.critic.bias.copy_(original[1])
    if not after < MAX_ERROR_LEFT * before:
        return False
    fit_critic(policy, features.flatten(0, 1), batch.returns.flatten())
    return True


def _squared_error(policy: ActorCritic, features: Tensor, returns: Tensor) -> float:
    """Return the sum of the critic's squared errors."""
    return float((policy.apply_heads(features)[1] - returns).square().sum())


@torch.no_grad()
def fit_critic(policy: ActorCritic, features: Tensor, returns: Tensor) -> None:
    """Fit the critic's last layer to the returns by ridge regression on its change.

    features (S, F), returns (S,), both of the same S samples.
    """
    ones = torch.ones(len(features), 1)
    inputs = torch.cat([features.cpu(), ones], -1).double()  # an Apple GPU has no float64
    head = torch.cat([policy.critic.weight[0], policy.critic.bias]).cpu().double()
    gram = inputs.T @ inputs
    penalty = RIDGE * float(gram.diagonal().mean())
    residual = inputs.T @ (returns.cpu().double() - inputs @ head)
    gram.diagonal().add_(penalty)
    fitted = (head + torch.linalg.solve(gram, residual)).float()
    if fitted.isfinite().all():
        policy.critic.weight.copy_(fitted[None, :-1])
        policy.critic.bias.copy_(fitted[-1:])
