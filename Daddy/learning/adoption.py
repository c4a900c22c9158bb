"""An adopted version changes the policy and the critic: the jump is measured, the critic fitted.

The critic is replaced by an average of critics, each of which knew its own learner's weights. Its
last layer is fitted to the known returns where that helps much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from Daddy.learning.policy import ActorCritic
    from Daddy.learning.ports import StateDict
    from Daddy.learning.rollout import Minibatch

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
